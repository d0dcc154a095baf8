/* `keep_until_done` and `keep_if_latest` of waiting.py, by CPython's interface. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *kept, *latest, *namespace; /* two deques, and what the names of waiting.py stand for */
static PyObject *s_append, *s_block_until_ready, *s_most_in_background, *s_popleft;

/* Waits for the program that was kept first; what it failed with comes up where a result is read. */
static int wait_for_the_first(void) {
    PyObject *first = PyObject_CallMethodNoArgs(kept, s_popleft), *done = NULL;
    if (first) done = PyObject_CallMethodNoArgs(first, s_block_until_ready);
    Py_XDECREF(first);
    Py_XDECREF(done);
    if (done) return 0;
    int is_known = PyErr_ExceptionMatches(PyExc_RuntimeError) || (!first && PyErr_ExceptionMatches(PyExc_IndexError));
    if (is_known) PyErr_Clear();
    return is_known ? 0 : -1;
}

static PyObject *keep_until_done(PyObject *module, PyObject *done) {
    PyObject *appended = PyObject_CallMethodOneArg(kept, s_append, done);
    PyObject *most = appended ? PyDict_GetItemWithError(namespace, s_most_in_background) : NULL;
    Py_XDECREF(appended);
    if (!most) return NULL;
    if (PyObject_Size(kept) > PyLong_AsSsize_t(most) && wait_for_the_first() < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *keep_if_latest(PyObject *module, PyObject *result) {
    PyObject *most = PyDict_GetItemWithError(namespace, s_most_in_background);
    if (!most) return NULL;
    return PyLong_AsSsize_t(most) ? PyObject_CallMethodOneArg(latest, s_append, result) : keep_until_done(module, result);
}

static PyObject *bind(PyObject *module, PyObject *arguments) {
    if (!PyArg_ParseTuple(arguments, "OOO!", &kept, &latest, &PyDict_Type, &namespace)) return NULL;
    Py_INCREF(arguments); /* for as long as the process lasts */
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "Tells the module, once, what it works with."},
    {"keep_until_done", keep_until_done, METH_O, "See waiting.py."},
    {"keep_if_latest", keep_if_latest, METH_O, "See waiting.py."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_waiting", NULL, -1, functions};

PyMODINIT_FUNC PyInit__waiting(void) {
    s_append = PyUnicode_InternFromString("append");
    s_block_until_ready = PyUnicode_InternFromString("block_until_ready");
    s_most_in_background = PyUnicode_InternFromString("most_in_background");
    s_popleft = PyUnicode_InternFromString("popleft");
    return PyModule_Create(&definition);
}
