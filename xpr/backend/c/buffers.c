/* Buffers of arrays, for Python 3.11, which does not yet ask `__buffer__` of classes.

   These are functions of the Python that has loaded this library. */

extern int PyObject_GetBuffer(void *exporter, void *view, int flags);
extern void *PyObject_CallMethod(void *object, const char *name, const char *format, ...);
extern void Py_DecRef(void *object);

/* That of the NumPy array; where it has none, the method says why. */
int xpr_get_buffer(void *array, void *view, int flags) {
    void *result = PyObject_CallMethod(array, "_with_buffer", 0);
    if (!result) return -1;
    int status = PyObject_GetBuffer(result, view, flags); /* the view holds it */
    Py_DecRef(result);
    return status;
}
