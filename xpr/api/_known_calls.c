/* `call_known` of known_calls.py and `flatten_plain` of plain_trees.py, which say what they do, by CPython's interface. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

/* The fields of a `KnownProgram`. */
enum { RUN, HANDLERS, IN_BACKGROUND, CONSTANTS, UNUSED, AVALS, DEVICES, UNFLATTEN };

static PyTypeObject *array;                                /* the class of arrays, */
static Py_ssize_t aval_at, host_at, buffer_at, device_at; /* and where its instances have their slots */
static PyObject *settings, *plain_type, *put, *new_buffers, *keep_until_done, *flatten_nodes;
static PyObject *s_buffer, *s_consume_token, *s_consume_with_handlers, *s_direct, *s_fields, *s_in_nodes, *s_in_trees,
    *s_is_ready, *s_trace_key;

/* None, tuples, named ones among them, lists and dicts. */
static int is_container(PyObject *x) {
    if (x == Py_None || PyTuple_CheckExact(x) || PyList_CheckExact(x) || PyDict_CheckExact(x)) return 1;
    return PyTuple_Check(x) && PyObject_HasAttr((PyObject *)Py_TYPE(x), s_fields);
}

/* Appends a container's type and size to the structure. */
static int describe(PyObject *structure, PyObject *x, Py_ssize_t size) {
    PyObject *number = PyLong_FromSsize_t(size);
    int failed = !number || PyList_Append(structure, (PyObject *)Py_TYPE(x)) < 0 || PyList_Append(structure, number) < 0;
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

static int flatten(PyObject *x, PyObject *leaves, PyObject *structure);

/* The same for an element of a container that may change meanwhile: comparing keys can run any code. */
static int flatten_kept(PyObject *x, PyObject *leaves, PyObject *structure) {
    Py_INCREF(x);
    int status = flatten(x, leaves, structure);
    Py_DECREF(x);
    return status;
}

/* Appends the leaves of a tree, and what tells its structure, in this order: it can be read again from the left. */
static int flatten(PyObject *x, PyObject *leaves, PyObject *structure) {
    if (!is_container(x)) return PyList_Append(leaves, x) < 0 ? -1 : PyList_Append(structure, Py_Ellipsis);
    if (x == Py_None) return PyList_Append(structure, Py_None);
    if (Py_EnterRecursiveCall(" in a tree")) return -1;
    int failed;
    if (PyDict_CheckExact(x)) {
        PyObject *keys = PyDict_Keys(x);
        failed = !keys || PyList_Sort(keys) < 0 || describe(structure, x, PyList_GET_SIZE(keys)) < 0;
        for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
            PyObject *key = PyList_GET_ITEM(keys, i), *value = PyDict_GetItemWithError(x, key);
            if (!value && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
            failed = !value || PyList_Append(structure, key) < 0 || flatten_kept(value, leaves, structure) < 0;
        }
        Py_XDECREF(keys);
    } else {
        failed = describe(structure, x, PySequence_Fast_GET_SIZE(x)) < 0;
        for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(x); i++)
            failed = flatten_kept(PySequence_Fast_GET_ITEM(x, i), leaves, structure) < 0;
    }
    Py_LeaveRecursiveCall();
    return failed ? -1 : 0;
}

/* The leaves of a tree and its structure; None where the keys of a dict have no order, or it is too deep. */
static PyObject *flatten_plain(PyObject *module, PyObject *tree) {
    PyObject *leaves = PyList_New(0), *structure = PyList_New(0), *hashed = NULL, *result = NULL;
    if (leaves && structure && flatten(tree, leaves, structure) == 0) hashed = PyList_AsTuple(structure);
    if (hashed) result = PyTuple_Pack(2, leaves, hashed);
    else if (PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        result = Py_NewRef(Py_None);
    }
    Py_XDECREF(leaves);
    Py_XDECREF(structure);
    Py_XDECREF(hashed);
    return result;
}

#define SLOT(object, at) (*(PyObject **)((char *)(object) + (at)))

/* What a call is looked up by, and what its program runs on. */
typedef struct {
    PyObject *key;      /* a tuple, */
    Py_ssize_t used;    /* filled so far */
    PyObject *buffers;  /* a list */
    PyObject *plain_at; /* a list of the positions and types of plain values among the buffers, or NULL */
} Operands;

static void add_to_key(Operands *operands, PyObject *part) {
    PyTuple_SET_ITEM(operands->key, operands->used++, part);
}

/* Adds a value that is no array; 0 if there is no known program for such ones, -1 on errors. */
static int add_plain(Operands *operands, Py_ssize_t i, PyObject *x) {
    PyObject *aval = PyObject_CallOneArg(plain_type, x);
    if (!aval) return -1;
    add_to_key(operands, aval);
    if (aval == Py_None) return 0;
    add_to_key(operands, Py_NewRef(Py_TYPE(x)));
    PyList_SET_ITEM(operands->buffers, i, Py_NewRef(x));
    if (!operands->plain_at && !(operands->plain_at = PyList_New(0))) return -1;
    PyObject *pair = Py_BuildValue("nO", i, aval);
    int failed = !pair || PyList_Append(operands->plain_at, pair) < 0;
    Py_XDECREF(pair);
    return failed ? -1 : 1;
}

/* Adds an array; 0 if it was not initialized, -1 on errors. */
static int add_array(Operands *operands, Py_ssize_t i, PyObject *x) {
    PyObject *aval = SLOT(x, aval_at), *device = SLOT(x, device_at), *buffer = SLOT(x, buffer_at);
    if (!aval || !device || !buffer) return 0;
    add_to_key(operands, Py_NewRef(aval));
    if (device != Py_None) add_to_key(operands, Py_NewRef(device));
    buffer = buffer == Py_None ? PyObject_GetAttr(x, s_buffer) : Py_NewRef(buffer);
    if (!buffer) return -1;
    PyList_SET_ITEM(operands->buffers, i, buffer);
    return 1;
}

/* Takes the leaves of a call, a tuple or a list; `structure` is NULL if they are its arguments. */
static int take_leaves(Operands *operands, PyObject *structure, PyObject *leaves) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(leaves);
    PyObject *trace_key = PyObject_GetAttr(settings, s_trace_key);
    if (!trace_key) return -1;
    operands->key = PyTuple_New(2 + 2 * n);
    operands->buffers = PyList_New(n);
    if (!operands->key || !operands->buffers) {
        Py_DECREF(trace_key);
        return -1;
    }
    add_to_key(operands, trace_key);
    if (structure) add_to_key(operands, Py_NewRef(structure));
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(leaves, i);
        int known = Py_TYPE(x) == array ? add_array(operands, i, x) : is_container(x) ? 0 : add_plain(operands, i, x);
        if (known <= 0) return known;
    }
    return _PyTuple_Resize(&operands->key, operands->used) < 0 ? -1 : 1;
}

static PyObject *as_array(PyObject *program, Py_ssize_t i, PyObject *buffer) {
    PyObject *devices = PyTuple_GET_ITEM(program, DEVICES), *x = array->tp_alloc(array, 0);
    if (!x) return NULL;
    SLOT(x, aval_at) = Py_NewRef(PyTuple_GET_ITEM(PyTuple_GET_ITEM(program, AVALS), i));
    SLOT(x, host_at) = Py_NewRef(Py_None);
    SLOT(x, buffer_at) = Py_NewRef(buffer);
    SLOT(x, device_at) = Py_NewRef(devices == Py_None ? Py_None : PyTuple_GET_ITEM(devices, i));
    return x;
}

static PyObject *as_results(PyObject *program, PyObject *outs) {
    PyObject *unflatten = PyTuple_GET_ITEM(program, UNFLATTEN);
    if (unflatten == Py_None) return as_array(program, 0, PyList_GET_ITEM(outs, 0));
    Py_ssize_t n = PyList_GET_SIZE(outs);
    PyObject *arrays = PyList_New(n), *results = NULL;
    for (Py_ssize_t i = 0; arrays && i < n; i++) {
        PyObject *x = as_array(program, i, PyList_GET_ITEM(outs, i));
        if (x) PyList_SET_ITEM(arrays, i, x);
        else Py_CLEAR(arrays);
    }
    if (arrays) results = PyObject_CallOneArg(unflatten, arrays);
    Py_XDECREF(arrays);
    return results;
}

/* Has the process end after the program, or lets other calls use the buffers that were written for it. */
static int after_run(PyObject *program, PyObject *execution, PyObject *outs, PyObject *written) {
    PyObject *token, *done = NULL;
    if (PyTuple_GET_ITEM(program, IN_BACKGROUND) == Py_True) {
        token = PyObject_CallMethodNoArgs(execution, s_consume_token);
        if (token) done = PyObject_CallOneArg(keep_until_done, token);
        Py_XDECREF(token);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    if (!written) return 0;
    done = PyObject_CallMethodNoArgs(PyList_GET_ITEM(outs, 0), s_is_ready);
    if (!done) return -1;
    Py_DECREF(done);
    return done == Py_True ? PyList_Append(PyTuple_GET_ITEM(program, UNUSED), written) : 0;
}

/* The buffers that a program gives; NotImplemented where XLA raises an error, since the general path says why. */
static PyObject *run(PyObject *program, PyObject *buffers, PyObject *written) {
    PyObject *run = PyTuple_GET_ITEM(program, RUN), *handlers = PyTuple_GET_ITEM(program, HANDLERS);
    if (handlers == Py_None) {
        PyObject *outs = PyObject_CallOneArg(run, buffers);
        if (outs && !PyList_CheckExact(outs)) Py_SETREF(outs, PySequence_List(outs));
        return outs;
    }
    PyObject *arguments[] = {NULL, buffers, PyTuple_GET_ITEM(program, IN_BACKGROUND)}, *outs = NULL;
    PyObject *execution = PyObject_Vectorcall(run, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (execution) {
        PyObject *consumed[] = {execution, handlers};
        outs = PyObject_VectorcallMethod(
            s_consume_with_handlers, consumed, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    if (!outs && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
        PyErr_Clear();
        outs = Py_NewRef(Py_NotImplemented);
    } else if (outs && after_run(program, execution, outs, written) < 0) Py_CLEAR(outs);
    Py_XDECREF(execution);
    return outs;
}

/* The last of a list, which loses it, or what the function gives for plain values if it is empty. */
static PyObject *taken(PyObject *unused, PyObject *plain_at) {
    Py_ssize_t n = PyList_GET_SIZE(unused);
    if (!n) return PyObject_CallOneArg(new_buffers, plain_at);
    PyObject *last = Py_NewRef(PyList_GET_ITEM(unused, n - 1));
    if (PyList_SetSlice(unused, n - 1, n, NULL) < 0) Py_CLEAR(last);
    return last;
}

/* Replaces plain values by buffers, those in `written` where they may be used again. 0 if that is another path's. */
static int replace_plain(PyObject *program, Operands *operands, PyObject **written) {
    PyObject *plain_at = operands->plain_at, *unused = PyTuple_GET_ITEM(program, UNUSED);
    if (!plain_at) return 1;
    if (PyTuple_GET_ITEM(program, DEVICES) != Py_None) return 0;
    if (unused == Py_None) {
        PyObject *done = PyObject_CallFunctionObjArgs(put, operands->buffers, plain_at, NULL);
        Py_XDECREF(done);
        return done ? 1 : -1;
    }
    if (!(*written = taken(unused, plain_at))) return -1;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(*written); k++) {
        PyObject *pair = PyList_GET_ITEM(*written, k);
        Py_ssize_t i = PyLong_AsSsize_t(PyTuple_GET_ITEM(PyList_GET_ITEM(plain_at, k), 0));
        if (PyObject_SetItem(PyTuple_GET_ITEM(pair, 0), Py_Ellipsis, PyList_GET_ITEM(operands->buffers, i)) < 0) return -1;
        if (PyList_SetItem(operands->buffers, i, Py_NewRef(PyTuple_GET_ITEM(pair, 1))) < 0) return -1;
    }
    return 1;
}

static int prepend_constants(PyObject *program, Operands *operands) {
    PyObject *constants = PyTuple_GET_ITEM(program, CONSTANTS);
    if (!PyList_GET_SIZE(constants)) return 1;
    PyObject *all = PySequence_Concat(constants, operands->buffers);
    if (!all) return -1;
    Py_SETREF(operands->buffers, all);
    return 1;
}

/* The results of a call with these leaves, if `table` has its program; else NotImplemented. */
static PyObject *call_in(PyObject *table, PyObject *structure, PyObject *leaves) {
    Operands operands = {NULL, 0, NULL, NULL};
    PyObject *program = NULL, *written = NULL, *outs = NULL, *results = NULL;
    int known = take_leaves(&operands, structure, leaves);
    if (known > 0) {
        program = Py_XNewRef(PyDict_GetItemWithError(table, operands.key));
        known = program ? 1 : 0;
        if (PyErr_Occurred()) { /* in a class that compares its nodes: the general path explains it */
            if (PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
            else known = -1;
        }
    }
    if (known > 0) known = replace_plain(program, &operands, &written);
    if (known > 0) known = prepend_constants(program, &operands);
    if (known > 0) outs = run(program, operands.buffers, written);
    if (known == 0 || outs == Py_NotImplemented) results = Py_NewRef(Py_NotImplemented);
    else if (outs) results = as_results(program, outs);
    Py_XDECREF(outs);
    Py_XDECREF(written);
    Py_XDECREF(program);
    Py_XDECREF(operands.key);
    Py_XDECREF(operands.buffers);
    Py_XDECREF(operands.plain_at);
    return results;
}

/* The same for arguments in containers, which the function flattens. */
static PyObject *call_in_trees(
    PyObject *known, PyObject *attribute, PyObject *(*flatten)(PyObject *, PyObject *), PyObject *args, PyObject *kwargs) {
    PyObject *table = PyObject_GetAttr(known, attribute), *results = NULL;
    if (!table) return NULL;
    if (!PyDict_GET_SIZE(table)) results = Py_NewRef(Py_NotImplemented);
    else {
        PyObject *pair = PyTuple_Pack(2, args, kwargs);
        PyObject *flat = pair ? flatten(NULL, pair) : NULL;
        if (flat == Py_None) results = Py_NewRef(Py_NotImplemented);
        else if (flat) results = call_in(table, PyTuple_GET_ITEM(flat, 1), PyTuple_GET_ITEM(flat, 0));
        Py_XDECREF(pair);
        Py_XDECREF(flat);
    }
    Py_DECREF(table);
    return results;
}

static PyObject *with_nodes(PyObject *module, PyObject *tree) {
    return PyObject_CallOneArg(flatten_nodes, tree);
}

static PyObject *call_known(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3) return PyErr_Format(PyExc_TypeError, "call_known takes 3 arguments, not %zd", count);
    PyObject *known = arguments[0], *args = arguments[1], *kwargs = arguments[2], *results;
    if (!PyDict_GET_SIZE(kwargs)) {
        PyObject *direct = PyObject_GetAttr(known, s_direct);
        if (!direct) return NULL;
        results = call_in(direct, NULL, args);
        Py_DECREF(direct);
        if (results != Py_NotImplemented) return results;
        Py_DECREF(results);
    }
    results = call_in_trees(known, s_in_trees, flatten_plain, args, kwargs);
    if (results != Py_NotImplemented) return results;
    Py_DECREF(results);
    return call_in_trees(known, s_in_nodes, with_nodes, args, kwargs);
}

/* Where instances of a class have a slot; -1 with an exception where it has none of this name. */
static Py_ssize_t offset_of(PyObject *cls, const char *name) {
    PyObject *member = PyObject_GetAttrString(cls, name);
    if (!member) return -1;
    Py_ssize_t at = -1;
    if (Py_IS_TYPE(member, &PyMemberDescr_Type)) at = ((PyMemberDescrObject *)member)->d_member->offset;
    else PyErr_Format(PyExc_TypeError, "%R has no slot %s", cls, name);
    Py_DECREF(member);
    return at;
}

static PyObject *bind(PyObject *module, PyObject *args) {
    PyObject *cls;
    if (!PyArg_ParseTuple(args, "O!OOOOOO", &PyType_Type, &cls, &settings, &plain_type, &put, &new_buffers,
                          &keep_until_done, &flatten_nodes))
        return NULL;
    aval_at = offset_of(cls, "aval"), host_at = offset_of(cls, "_host");
    buffer_at = offset_of(cls, "_buffer"), device_at = offset_of(cls, "_device");
    if (aval_at < 0 || host_at < 0 || buffer_at < 0 || device_at < 0) return NULL;
    array = (PyTypeObject *)Py_NewRef(cls);
    Py_INCREF(args); /* and what it holds, for as long as the process lasts */
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "Tells the module, once, what it works with."},
    {"flatten_plain", flatten_plain, METH_O, "See plain_trees.py."},
    {"call_known", (PyCFunction)(void (*)(void))call_known, METH_FASTCALL, "See known_calls.py."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_known_calls", NULL, -1, functions};

PyMODINIT_FUNC PyInit__known_calls(void) {
    s_buffer = PyUnicode_InternFromString("buffer");
    s_consume_token = PyUnicode_InternFromString("consume_token");
    s_consume_with_handlers = PyUnicode_InternFromString("consume_with_handlers");
    s_direct = PyUnicode_InternFromString("direct");
    s_fields = PyUnicode_InternFromString("_fields");
    s_in_nodes = PyUnicode_InternFromString("in_nodes");
    s_in_trees = PyUnicode_InternFromString("in_trees");
    s_is_ready = PyUnicode_InternFromString("is_ready");
    s_trace_key = PyUnicode_InternFromString("trace_key");
    return PyModule_Create(&definition);
}
