/* `run_known` of evaluate.py: an eager operation on arrays for which there is a plan, by CPython's interface. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "slots.h"

static PyTypeObject *array, *plan_class; /* the classes of arrays, of `OperationPlan`, */
static Py_ssize_t aval_at, host_at, buffer_at, device_at; /* and where their instances have their slots */
static Py_ssize_t reference_at, on_host_at, out_avals_at, committed_to_at, execute_at, handlers_at, keep_at;
static PyObject *settings, *without_warnings;
static PyObject *aval_of, *host_value, *operand_buffer; /* of operands that are no arrays */
static PyObject *s_any_params, *s_buffer, *s_consume_with_handlers, *s_default_device, *s_evaluate, *s_plans, *s_run;

typedef struct {
    PyObject *args, *params; /* a tuple or a list, and a dict */
    PyObject *key;           /* the default device, the types of the operands, and the parameters */
} Operation;

static Py_ssize_t count_of(const Operation *operation) { return PySequence_Fast_GET_SIZE(operation->args); }

static PyObject *operand(const Operation *operation, Py_ssize_t i) {
    return PySequence_Fast_GET_ITEM(operation->args, i);
}

static PyObject *type_of(const Operation *operation, Py_ssize_t i) { return PyTuple_GET_ITEM(operation->key, 1 + i); }

/* Whether the operation has a key: operands that are arrays were put on no device. -1 on errors. */
static int make_key(Operation *operation) {
    Py_ssize_t n = count_of(operation), used = 1 + n, at = 0;
    PyObject *key = operation->key = PyTuple_New(used + PyDict_GET_SIZE(operation->params)), *name, *value;
    PyObject *device = key ? PyObject_GetAttr(settings, s_default_device) : NULL;
    if (!device) return -1;
    PyTuple_SET_ITEM(key, 0, device);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = operand(operation, i), *aval;
        if (Py_TYPE(x) != array) aval = PyObject_CallOneArg(aval_of, x);
        else if (SLOT(x, device_at) == Py_None) aval = Py_XNewRef(SLOT(x, aval_at));
        else return 0;
        if (!aval) return PyErr_Occurred() ? -1 : 0;
        PyTuple_SET_ITEM(key, 1 + i, aval);
    }
    while (PyDict_Next(operation->params, &at, &name, &value)) {
        PyObject *item = PyTuple_Pack(2, name, value);
        if (!item) return -1;
        PyTuple_SET_ITEM(key, used++, item);
    }
    return 1;
}

/* The plan of an operation; NULL, without an exception, if there is none, or the operation is another path's. */
static PyObject *plan_of(PyObject *primitive, Operation *operation) {
    PyObject *evaluate = PyObject_GetAttr(primitive, s_evaluate), *plans = NULL, *plan = NULL;
    int is_known = evaluate == Py_None;
    Py_XDECREF(evaluate);
    if (is_known && PyDict_GET_SIZE(operation->params)) { /* numbers of other types may be equal */
        PyObject *any_params = PyObject_GetAttr(primitive, s_any_params);
        is_known = any_params == Py_False;
        Py_XDECREF(any_params);
    }
    if (is_known && make_key(operation) > 0) plans = PyObject_GetAttr(primitive, s_plans);
    if (plans) {
        plan = Py_XNewRef(PyDict_GetItemWithError(plans, operation->key));
        if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear(); /* a parameter has no hash */
        Py_DECREF(plans);
    }
    if (plan && Py_TYPE(plan) != plan_class) Py_CLEAR(plan);
    return plan;
}

/* An array with a type and one copy of its value, which is taken. */
static PyObject *as_array(PyObject *aval, PyObject *host, PyObject *buffer) {
    PyObject *x = array->tp_alloc(array, 0);
    if (!x) return NULL;
    SLOT(x, aval_at) = Py_NewRef(aval);
    SLOT(x, host_at) = Py_NewRef(host);
    SLOT(x, buffer_at) = Py_NewRef(buffer);
    SLOT(x, device_at) = Py_NewRef(Py_None);
    return x;
}

/* The results as a list of arrays, from what is a sequence of their values in NumPy, or of their buffers. */
static PyObject *as_results(PyObject *plan, PyObject *values, int on_host) {
    PyObject *avals = SLOT(plan, out_avals_at), *fast = PySequence_Fast(values, "results are no sequence");
    PyObject *results = fast ? PyList_New(PyList_GET_SIZE(avals)) : NULL;
    if (results && PySequence_Fast_GET_SIZE(fast) != PyList_GET_SIZE(avals)) {
        PyErr_SetString(PyExc_ValueError, "there are other results than types of results");
        Py_CLEAR(results);
    }
    for (Py_ssize_t i = 0; results && i < PyList_GET_SIZE(results); i++) {
        PyObject *value = PySequence_Fast_GET_ITEM(fast, i), *aval = PyList_GET_ITEM(avals, i);
        PyObject *x = on_host ? as_array(aval, value, Py_None) : as_array(aval, Py_None, value);
        if (x) PyList_SET_ITEM(results, i, x);
        else Py_CLEAR(results);
    }
    Py_XDECREF(fast);
    return results;
}

/* The operands' values in NumPy; NULL, without an exception, where an array has none there. */
static PyObject *host_values(const Operation *operation) {
    Py_ssize_t n = count_of(operation);
    PyObject *values = PyList_New(n);
    for (Py_ssize_t i = 0; values && i < n; i++) {
        PyObject *x = operand(operation, i), *value;
        if (Py_TYPE(x) != array) value = PyObject_CallFunctionObjArgs(host_value, x, type_of(operation, i), NULL);
        else value = SLOT(x, host_at) == Py_None ? NULL : Py_XNewRef(SLOT(x, host_at));
        if (value) PyList_SET_ITEM(values, i, value);
        else Py_CLEAR(values);
    }
    return values;
}

static PyObject *run_in_numpy(PyObject *plan, const Operation *operation) {
    PyObject *values = host_values(operation), *run = NULL, *outs = NULL, *results = NULL;
    if (values && (run = PyObject_GetAttr(without_warnings, s_run))) {
        PyObject *arguments[] = {NULL, SLOT(plan, reference_at), values};
        outs = PyObject_VectorcallDict(run, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, operation->params);
    }
    if (outs) results = as_results(plan, outs, 1);
    Py_XDECREF(values);
    Py_XDECREF(run);
    Py_XDECREF(outs);
    return results;
}

/* The buffer of an array; NULL, without an exception, if it was deleted, or has another layout in memory. */
static PyObject *buffer_of(PyObject *x) {
    PyObject *buffer = SLOT(x, buffer_at);
    if (buffer && buffer != Py_None) return Py_NewRef(buffer);
    return !buffer || SLOT(x, host_at) == Py_None ? NULL : PyObject_GetAttr(x, s_buffer);
}

/* NULL, without an exception, where XLA raises an error: the general path says why, or moves the operands. */
static PyObject *run_program(PyObject *plan, const Operation *operation) {
    Py_ssize_t n = count_of(operation);
    PyObject *buffers = PyList_New(n), *execution = NULL, *outs = NULL, *results = NULL;
    for (Py_ssize_t i = 0; buffers && i < n; i++) {
        PyObject *x = operand(operation, i), *aval = type_of(operation, i);
        PyObject *buffer = Py_TYPE(x) == array ? buffer_of(x) : PyObject_CallFunctionObjArgs(operand_buffer, x, aval, NULL);
        if (buffer) PyList_SET_ITEM(buffers, i, buffer);
        else Py_CLEAR(buffers);
    }
    if (buffers) execution = PyObject_CallOneArg(SLOT(plan, execute_at), buffers);
    if (execution) {
        PyObject *consumed[] = {execution, SLOT(plan, handlers_at)};
        outs = PyObject_VectorcallMethod(
            s_consume_with_handlers, consumed, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    PyObject *keep = SLOT(plan, keep_at);
    int is_kept = outs && keep != Py_None;
    PyObject *kept = is_kept ? PyObject_CallOneArg(keep, PyList_GET_ITEM(outs, 0)) : NULL;
    if (outs && (kept || !is_kept)) results = as_results(plan, outs, 0);
    else if (!outs && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_RuntimeError)) PyErr_Clear();
    Py_XDECREF(kept);
    Py_XDECREF(buffers);
    Py_XDECREF(execution);
    Py_XDECREF(outs);
    return results;
}

static PyObject *run_known(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    int are_listed = count == 3 && (PyTuple_CheckExact(arguments[1]) || PyList_CheckExact(arguments[1]));
    if (!are_listed || !PyDict_CheckExact(arguments[2])) return Py_NewRef(Py_NotImplemented);
    Operation operation = {arguments[1], arguments[2], NULL};
    PyObject *plan = plan_of(arguments[0], &operation), *results = NULL;
    if (plan && SLOT(plan, on_host_at) == Py_True) results = run_in_numpy(plan, &operation);
    else if (plan && SLOT(plan, execute_at) != Py_None && SLOT(plan, committed_to_at) == Py_None)
        results = run_program(plan, &operation);
    Py_XDECREF(plan);
    Py_XDECREF(operation.key);
    return results || PyErr_Occurred() ? results : Py_NewRef(Py_NotImplemented);
}

static PyObject *bind(PyObject *module, PyObject *arguments) {
    if (!PyArg_ParseTuple(
            arguments, "O!O!OOOOO", &PyType_Type, &array, &PyType_Type, &plan_class, &settings, &without_warnings, &aval_of,
            &host_value, &operand_buffer))
        return NULL;
    Py_INCREF(arguments); /* for as long as the process lasts */
    const struct {
        PyTypeObject *cls;
        const char *name;
        Py_ssize_t *at;
    } slots[] = {
        {array, "aval", &aval_at}, {array, "_host", &host_at}, {array, "_buffer", &buffer_at},
        {array, "_device", &device_at}, {plan_class, "reference", &reference_at}, {plan_class, "on_host", &on_host_at},
        {plan_class, "out_avals", &out_avals_at}, {plan_class, "committed_to", &committed_to_at},
        {plan_class, "execute", &execute_at}, {plan_class, "handlers", &handlers_at},
        {plan_class, "keep", &keep_at},
    };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if ((*slots[i].at = offset_of((PyObject *)slots[i].cls, slots[i].name)) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "Tells the module, once, what it works with."},
    {"run_known", (PyCFunction)(void (*)(void))run_known, METH_FASTCALL, "See evaluate.py."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_known_operations", NULL, -1, functions};

PyMODINIT_FUNC PyInit__known_operations(void) {
    s_any_params = PyUnicode_InternFromString("any_params");
    s_buffer = PyUnicode_InternFromString("buffer");
    s_consume_with_handlers = PyUnicode_InternFromString("consume_with_handlers");
    s_default_device = PyUnicode_InternFromString("default_device");
    s_evaluate = PyUnicode_InternFromString("evaluate");
    s_plans = PyUnicode_InternFromString("plans");
    s_run = PyUnicode_InternFromString("run");
    return PyModule_Create(&definition);
}
