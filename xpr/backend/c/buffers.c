/* Buffers of arrays, for Python 3.11, which does not yet ask `__buffer__` of classes.

   These are functions of the Python that has loaded this library. */

extern int PyObject_GetBuffer(void *exporter, void *view, int flags);
extern void *PyObject_CallMethod(void *object, const char *name, const char *format, ...);
extern void PyErr_Clear(void);
extern void Py_DecRef(void *object);

static int buffer_of_result(void *object, const char *method, void *view, int flags) {
    void *result = PyObject_CallMethod(object, method, 0);
    if (!result) return -1;
    int status = PyObject_GetBuffer(result, view, flags); /* the view holds it */
    Py_DecRef(result);
    return status;
}

/* That of the NumPy array; where it has none, `__buffer__` says why. */
int xpr_get_buffer(void *array, void *view, int flags) {
    if (buffer_of_result(array, "__array__", view, flags) == 0) return 0;
    PyErr_Clear();
    return buffer_of_result(array, "__buffer__", view, flags);
}
