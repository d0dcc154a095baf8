/* `call_known` and `KnownCaller` of known_calls.py, which says what they do, by CPython's interface. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "slots.h"

/* The fields of a `KnownProgram`. */
enum { RUN, HANDLERS, WAITING, CONSTANTS, UNUSED, AVALS, DEVICES, UNFLATTEN, DONATED, PLAN, FAILED };
/* When its results are waited for, see `Waiting` in backend/waiting.py. */
enum { NEVER, AT_EXIT, AT_ONCE, AT_EXIT_BY_RESULT, AT_EXIT_IF_LATEST };
/* The kinds of nodes in its plan, see `plan_of` there. */
enum { TUPLE, LIST, DICT, NAMEDTUPLE, REGISTERED, DATACLASS };

static PyTypeObject *array, *known_calls, *numpy_scalar; /* the classes of arrays, of `KnownCalls`, */
static Py_ssize_t aval_at, host_at, buffer_at, device_at; /* and where the instances of the first two have their slots */
static Py_ssize_t direct_at, in_trees_at, in_nodes_at, static_at, by_value_at, offered_at;
static PyObject *context, *settings, *config, *plain_type, *put, *new_buffers, *keep_until_done, *keep_if_latest, *cache_key;
static PyObject *dtype_class, *inexact;
static PyObject *flatten_plain, *flatten_nodes; /* the functions that flatten arguments for the two tables of trees */
static PyObject *s_block_until_ready, *s_buffer, *s_call, *s_consume_token, *s_consume_with_handlers, *s_dtype, *s_is_ready;
static PyObject *s_keyed, *s_runs_known_calls, *s_trace, *s_trace_key, *s_updates;
static PyObject *no_statics; /* an empty tuple */

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

/* Adds an array; 0 if it was not initialized, was deleted, or has another layout in memory; -1 on errors. */
static int add_array(Operands *operands, Py_ssize_t i, PyObject *x) {
    PyObject *aval = SLOT(x, aval_at), *device = SLOT(x, device_at), *buffer = SLOT(x, buffer_at);
    if (!aval || !device || !buffer) return 0;
    if (buffer == Py_None && SLOT(x, host_at) == Py_None) return 0;
    add_to_key(operands, Py_NewRef(aval));
    if (device != Py_None) add_to_key(operands, Py_NewRef(device));
    buffer = buffer == Py_None ? PyObject_GetAttr(x, s_buffer) : Py_NewRef(buffer);
    if (!buffer) return -1;
    PyList_SET_ITEM(operands->buffers, i, buffer);
    return 1;
}

/* `settings.trace_key`, without a call of Python where no setting has changed since the last one. */
static PyObject *current_trace_key(void) {
    PyObject *keyed = PyObject_GetAttr(settings, s_keyed), *key = NULL;
    PyObject *updates = keyed ? PyDict_GetItemWithError(config, s_updates) : NULL;
    if (updates) {
        int is_current = PyObject_RichCompareBool(PyTuple_GET_ITEM(keyed, 0), updates, Py_EQ);
        if (is_current > 0) key = Py_NewRef(PyTuple_GET_ITEM(keyed, 1));
        else if (is_current == 0) key = PyObject_GetAttr(settings, s_trace_key);
    }
    Py_XDECREF(keyed);
    return key;
}

/* Takes the leaves of a call, a tuple or a list. `structure` is NULL if they are its arguments, `statics` if the function
   has no static ones. */
static int take_leaves(Operands *operands, PyObject *structure, PyObject *statics, PyObject *leaves) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(leaves);
    PyObject *trace_key = current_trace_key();
    if (!trace_key) return -1;
    operands->key = PyTuple_New(3 + 2 * n);
    operands->buffers = PyList_New(n);
    if (!operands->key || !operands->buffers) {
        Py_DECREF(trace_key);
        return -1;
    }
    add_to_key(operands, trace_key);
    if (structure) add_to_key(operands, Py_NewRef(structure));
    if (statics) add_to_key(operands, Py_NewRef(statics));
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PySequence_Fast_GET_ITEM(leaves, i);
        int known = Py_TYPE(x) == array ? add_array(operands, i, x) : add_plain(operands, i, x);
        if (known <= 0) return known;
    }
    return _PyTuple_Resize(&operands->key, operands->used) < 0 ? -1 : 1;
}

/* Drops what donated arrays hold: their values on the host before the program runs, so that no view is left of the
   memory that it is to use again; and afterwards their buffers. */
static void forget_donated(PyObject *program, PyObject *leaves, Py_ssize_t at) {
    PyObject *donated = PyTuple_GET_ITEM(program, DONATED);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(donated); k++) {
        PyObject *x = PySequence_Fast_GET_ITEM(leaves, PyLong_AsSsize_t(PyTuple_GET_ITEM(donated, k)));
        if (Py_TYPE(x) == array) Py_XSETREF(SLOT(x, at), Py_NewRef(Py_None));
    }
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

static PyObject *build(PyObject *plan, PyObject *program, PyObject *outs, Py_ssize_t *next);

/* The children of a node, a tuple or, for one of kind LIST, a list. */
static PyObject *build_children(PyObject *plan, int kind, PyObject *program, PyObject *outs, Py_ssize_t *next) {
    PyObject *plans = PyTuple_GET_ITEM(plan, 1);
    Py_ssize_t n = PyTuple_GET_SIZE(plans);
    PyObject *children = kind == LIST ? PyList_New(n) : PyTuple_New(n);
    for (Py_ssize_t i = 0; children && i < n; i++) {
        PyObject *child = build(PyTuple_GET_ITEM(plans, i), program, outs, next);
        if (!child) Py_CLEAR(children);
        else if (kind == LIST) PyList_SET_ITEM(children, i, child);
        else PyTuple_SET_ITEM(children, i, child);
    }
    return children;
}

/* A dict with its keys in their order, each beside the position of its value among the children. */
static PyObject *dict_of(PyObject *order, PyObject *children) {
    PyObject *dict = PyDict_New();
    for (Py_ssize_t i = 0; dict && i < PyTuple_GET_SIZE(order); i++) {
        PyObject *pair = PyTuple_GET_ITEM(order, i);
        PyObject *value = PyTuple_GET_ITEM(children, PyLong_AsSsize_t(PyTuple_GET_ITEM(pair, 1)));
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(pair, 0), value) < 0) Py_CLEAR(dict);
    }
    return dict;
}

/* A dataclass, called with children and static data by the names of its fields. */
static PyObject *dataclass_of(PyObject *plan, PyObject *children) {
    PyObject *values = PySequence_Concat(children, PyTuple_GET_ITEM(plan, 4)), *node = NULL;
    if (values)
        node = PyObject_Vectorcall(
            PyTuple_GET_ITEM(plan, 2), &PyTuple_GET_ITEM(values, 0), 0, PyTuple_GET_ITEM(plan, 3));
    Py_XDECREF(values);
    return node;
}

/* The tree of results by its plan, from the buffers of the leaves that come next. */
static PyObject *build(PyObject *plan, PyObject *program, PyObject *outs, Py_ssize_t *next) {
    if (plan == Py_Ellipsis) {
        Py_ssize_t i = (*next)++;
        return as_array(program, i, PyList_GET_ITEM(outs, i));
    }
    if (plan == Py_None) return Py_NewRef(Py_None);
    int kind = (int)PyLong_AsLong(PyTuple_GET_ITEM(plan, 0));
    PyObject *children = build_children(plan, kind, program, outs, next), *node = NULL;
    if (!children || kind == TUPLE || kind == LIST) return children;
    if (kind == DICT) node = dict_of(PyTuple_GET_ITEM(plan, 2), children);
    else if (kind == DATACLASS) node = dataclass_of(plan, children);
    else if (kind == NAMEDTUPLE) node = PyObject_Call(PyTuple_GET_ITEM(plan, 2), children, NULL);
    else node = PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(plan, 2), PyTuple_GET_ITEM(plan, 3), children, NULL);
    Py_DECREF(children);
    return node;
}

static PyObject *as_results(PyObject *program, PyObject *outs) {
    PyObject *plan = PyTuple_GET_ITEM(program, PLAN);
    Py_ssize_t n = PyList_GET_SIZE(outs), next = 0;
    if (plan != Py_None || PyTuple_GET_ITEM(program, UNFLATTEN) == Py_None)
        return build(plan == Py_None ? Py_Ellipsis : plan, program, outs, &next);
    PyObject *arrays = PyList_New(n), *results = NULL;
    for (Py_ssize_t i = 0; arrays && i < n; i++) {
        PyObject *x = as_array(program, i, PyList_GET_ITEM(outs, i));
        if (x) PyList_SET_ITEM(arrays, i, x);
        else Py_CLEAR(arrays);
    }
    if (arrays) results = PyObject_CallOneArg(PyTuple_GET_ITEM(program, UNFLATTEN), arrays);
    Py_XDECREF(arrays);
    return results;
}

static long waiting_of(PyObject *program) { return PyLong_AsLong(PyTuple_GET_ITEM(program, WAITING)); }

/* Has the process end after the program, or lets other calls use the buffers that were written for it. */
static int after_run(PyObject *program, PyObject *execution, PyObject *outs, PyObject *written) {
    long waiting = waiting_of(program);
    PyObject *kept, *done = NULL;
    if (waiting == AT_EXIT || waiting == AT_EXIT_BY_RESULT || waiting == AT_EXIT_IF_LATEST) {
        if (waiting == AT_EXIT) kept = PyObject_CallMethodNoArgs(execution, s_consume_token);
        else kept = Py_NewRef(PyList_GET_ITEM(outs, 0));
        if (kept) done = PyObject_CallOneArg(waiting == AT_EXIT_IF_LATEST ? keep_if_latest : keep_until_done, kept);
        Py_XDECREF(kept);
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
    PyObject *outs = NULL, *execution = NULL;
    if (handlers == Py_None) {
        outs = PyObject_CallOneArg(run, buffers);
        if (outs && !PyList_CheckExact(outs)) Py_SETREF(outs, PySequence_List(outs));
        if (outs || !PyTuple_GET_SIZE(PyTuple_GET_ITEM(program, DONATED))) return outs;
    } else {
        PyObject *arguments[] = {NULL, buffers, waiting_of(program) == AT_EXIT ? Py_True : Py_False};
        execution = PyObject_Vectorcall(run, arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    if (execution) {
        PyObject *consumed[] = {execution, handlers};
        outs = PyObject_VectorcallMethod(
            s_consume_with_handlers, consumed, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    if (outs && waiting_of(program) == AT_ONCE) {
        PyObject *done = PyObject_CallMethodNoArgs(PyList_GET_ITEM(outs, 0), s_block_until_ready);
        if (!done) Py_CLEAR(outs); /* the program has failed: all of its results tell that */
        Py_XDECREF(done);
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

/* Forgets the program of a call whose run has failed, until the general path offers it again. */
static int forget(PyObject *known, PyObject *table, PyObject *key, PyObject *program) {
    PyObject *done = PyObject_CallNoArgs(PyTuple_GET_ITEM(program, FAILED));
    if (!done) return -1;
    Py_DECREF(done);
    if (PyDict_GetItemWithError(table, key) && PyDict_DelItem(table, key) < 0) return -1;
    return PyErr_Occurred() ? -1 : PySet_Clear(SLOT(known, offered_at));
}

/* The results of a call with these leaves, if `table` of `known` has its program; else NotImplemented. */
static PyObject *call_in(
    PyObject *known, PyObject *table, PyObject *structure, PyObject *statics, PyObject *leaves) {
    Operands operands = {NULL, 0, NULL, NULL};
    PyObject *program = NULL, *written = NULL, *outs = NULL, *results = NULL;
    int is_known = take_leaves(&operands, structure, statics, leaves);
    if (is_known > 0) {
        program = Py_XNewRef(PyDict_GetItemWithError(table, operands.key));
        is_known = program ? 1 : 0;
        if (PyErr_Occurred()) { /* in a class that compares its nodes: the general path explains it */
            if (PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
            else is_known = -1;
        }
    }
    if (is_known > 0) is_known = replace_plain(program, &operands, &written);
    if (is_known > 0) is_known = prepend_constants(program, &operands);
    if (is_known > 0) {
        forget_donated(program, leaves, host_at);
        outs = run(program, operands.buffers, written);
        if (outs == Py_NotImplemented && PyTuple_GET_ITEM(program, FAILED) != Py_None &&
            forget(known, table, operands.key, program) < 0)
            Py_CLEAR(outs);
    }
    if (is_known == 0 || outs == Py_NotImplemented) results = Py_NewRef(Py_NotImplemented);
    else if (outs) {
        forget_donated(program, leaves, buffer_at);
        results = as_results(program, outs);
    }
    Py_XDECREF(outs);
    Py_XDECREF(written);
    Py_XDECREF(program);
    Py_XDECREF(operands.key);
    Py_XDECREF(operands.buffers);
    Py_XDECREF(operands.plain_at);
    return results;
}

typedef struct {
    PyObject *args, *kwargs, *statics; /* the dynamic arguments, and the key of the static ones or NULL */
} Arguments; /* `kwargs` is NULL or a dict */

static int has_kwargs(const Arguments *arguments) {
    return arguments->kwargs && PyDict_GET_SIZE(arguments->kwargs);
}

/* The same for arguments in containers, which the function flattens. */
static PyObject *call_in_trees(PyObject *known, PyObject *table, PyObject *flatten, Arguments *arguments) {
    if (!PyDict_GET_SIZE(table)) return Py_NewRef(Py_NotImplemented);
    PyObject *kwargs = arguments->kwargs ? Py_NewRef(arguments->kwargs) : PyDict_New();
    PyObject *pair = kwargs ? PyTuple_Pack(2, arguments->args, kwargs) : NULL;
    PyObject *flat = pair ? PyObject_CallOneArg(flatten, pair) : NULL, *results = NULL;
    if (flat == Py_None) results = Py_NewRef(Py_NotImplemented);
    else if (flat)
        results = call_in(known, table, PyTuple_GET_ITEM(flat, 1), arguments->statics, PyTuple_GET_ITEM(flat, 0));
    Py_XDECREF(kwargs);
    Py_XDECREF(pair);
    Py_XDECREF(flat);
    return results;
}

static PyObject *call_with(PyObject *known, Arguments *arguments) {
    PyObject *direct = SLOT(known, direct_at), *results;
    if (PyDict_GET_SIZE(direct) && !has_kwargs(arguments)) {
        results = call_in(known, direct, NULL, arguments->statics, arguments->args);
        if (results != Py_NotImplemented) return results;
        Py_DECREF(results);
    }
    results = call_in_trees(known, SLOT(known, in_trees_at), flatten_plain, arguments);
    if (results != Py_NotImplemented) return results;
    Py_DECREF(results);
    return call_in_trees(known, SLOT(known, in_nodes_at), flatten_nodes, arguments);
}

/* See `cache_key` of core/primitive.py. */
static PyObject *key_of_static(PyObject *value) {
    if (!PyTuple_CheckExact(value)) {
        int has_other = PyFloat_Check(value) || PyComplex_Check(value) || PyTuple_Check(value) ||
            PyFrozenSet_Check(value) || PyType_IsSubtype(Py_TYPE(value), numpy_scalar);
        return has_other ? PyObject_CallOneArg(cache_key, value) : PyTuple_Pack(2, Py_TYPE(value), value);
    }
    Py_ssize_t n = PyTuple_GET_SIZE(value);
    PyObject *keys = PyTuple_New(n);
    for (Py_ssize_t i = 0; keys && i < n; i++) {
        PyObject *key = key_of_static(PyTuple_GET_ITEM(value, i));
        if (key) PyTuple_SET_ITEM(keys, i, key);
        else Py_CLEAR(keys);
    }
    PyObject *pair = keys ? PyTuple_Pack(2, &PyTuple_Type, keys) : NULL;
    Py_XDECREF(keys);
    return pair;
}

/* Appends a static argument and its position or name to the list of those. */
static int add_static(PyObject *statics, PyObject *position, PyObject *value) {
    PyObject *key = key_of_static(value), *pair = key ? PyTuple_Pack(2, position, key) : NULL;
    int failed = !pair || PyList_Append(statics, pair) < 0;
    Py_XDECREF(key);
    Py_XDECREF(pair);
    return failed ? -1 : 0;
}

/* Whether a position is one of the numbers, of which negative ones count from the end. */
static int is_one_of(PyObject *numbers, Py_ssize_t i, Py_ssize_t count) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(numbers); k++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(numbers, k));
        if (number == i || number + count == i) return 1;
    }
    return 0;
}

/* Whether an argument is an array that is not of floats or complex numbers; -1 on errors. */
static int is_array_of_integers(PyObject *x) {
    if (Py_TYPE(x) != array || !SLOT(x, aval_at)) return 0;
    PyObject *dtype = PyObject_GetAttr(SLOT(x, aval_at), s_dtype);
    int known = dtype ? PySet_Contains(inexact, dtype) : -1;
    Py_XDECREF(dtype);
    return known < 0 ? -1 : !known;
}

static int has_array_of_integers(const Arguments *all) {
    int has = 0;
    for (Py_ssize_t i = 0; !has && i < PyTuple_GET_SIZE(all->args); i++)
        has = is_array_of_integers(PyTuple_GET_ITEM(all->args, i));
    PyObject *name, *x;
    for (Py_ssize_t at = 0; !has && all->kwargs && PyDict_Next(all->kwargs, &at, &name, &x);) has = is_array_of_integers(x);
    return has;
}

/* Whether a value is no operand of a function of compiled_eagerly.py; -1 on errors. */
static int is_static_value(PyObject *x, const Arguments *all) {
    if (PyFloat_CheckExact(x)) return 0;
    if (x == Py_None || PyBool_Check(x) || PyUnicode_CheckExact(x) || PyType_Check(x)) return 1;
    if (PyTuple_CheckExact(x)) {
        int is_static = 1;
        for (Py_ssize_t i = 0; is_static == 1 && i < PyTuple_GET_SIZE(x); i++) {
            PyObject *each = PyTuple_GET_ITEM(x, i);
            is_static = PyLong_CheckExact(each) || PyFloat_CheckExact(each) ? 1 : is_static_value(each, all);
        }
        return is_static;
    }
    if (!PyLong_CheckExact(x)) return PyObject_IsInstance(x, dtype_class);
    int overflow;
    long value = PyLong_AsLongAndOverflow(x, &overflow);
    return overflow || value != (int)value ? 1 : has_array_of_integers(all);
}

/* What is static in a call: arguments at some positions and with some names; or, by value, all that are no operands. */
typedef struct {
    PyObject *numbers, *names;
    int by_value;
    const Arguments *all;
} Choice;

static int is_static(const Choice *choice, PyObject *x, int is_named) {
    if (!choice->by_value) return is_named;
    return Py_TYPE(x) == array ? 0 : is_named ? 1 : is_static_value(x, choice->all);
}

/* The arguments by position without the static ones, which are added to the list; NULL with an exception. */
static PyObject *dynamic_args(const Choice *choice, PyObject *statics) {
    PyObject *args = choice->all->args, *dynamic = PyList_New(0), *result = NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    int failed = !dynamic;
    for (Py_ssize_t i = 0; !failed && i < count; i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        int chosen = is_static(choice, x, is_one_of(choice->numbers, i, count));
        if (chosen > 0) {
            PyObject *position = PyLong_FromSsize_t(i);
            failed = !position || add_static(statics, position, x) < 0;
            Py_XDECREF(position);
        } else failed = chosen < 0 || PyList_Append(dynamic, x) < 0;
    }
    if (!failed) result = PyList_AsTuple(dynamic);
    Py_XDECREF(dynamic);
    return result;
}

/* The same for the arguments by name; NULL, without an exception, if there are none. */
static PyObject *dynamic_kwargs(const Choice *choice, PyObject *statics) {
    PyObject *kwargs = choice->all->kwargs, *dynamic = has_kwargs(choice->all) ? PyDict_Copy(kwargs) : NULL;
    int failed = 0;
    PyObject *name, *x;
    if (!dynamic) return NULL;
    if (choice->by_value) {
        for (Py_ssize_t at = 0; !failed && PyDict_Next(kwargs, &at, &name, &x);) {
            int chosen = is_static(choice, x, PySequence_Contains(choice->names, name) > 0);
            if (chosen > 0) failed = add_static(statics, name, x) < 0 || PyDict_DelItem(dynamic, name) < 0;
            else failed = chosen < 0;
        }
    } else {
        for (Py_ssize_t k = 0; !failed && k < PyTuple_GET_SIZE(choice->names); k++) {
            name = PyTuple_GET_ITEM(choice->names, k), x = PyDict_GetItemWithError(kwargs, name);
            if (x) failed = add_static(statics, name, x) < 0 || PyDict_DelItem(dynamic, name) < 0;
            else failed = PyErr_Occurred() != NULL;
        }
    }
    if (failed) Py_CLEAR(dynamic);
    return dynamic;
}

static PyObject *call_without_static(PyObject *known, const Choice *choice) {
    PyObject *statics = PyList_New(0), *results = NULL;
    Arguments dynamic = {NULL, NULL, NULL};
    if (statics) dynamic.args = dynamic_args(choice, statics);
    if (dynamic.args) dynamic.kwargs = dynamic_kwargs(choice, statics);
    if (dynamic.args && !PyErr_Occurred()) dynamic.statics = PyList_AsTuple(statics);
    if (dynamic.statics) results = call_with(known, &dynamic);
    Py_XDECREF(statics);
    Py_XDECREF(dynamic.args);
    Py_XDECREF(dynamic.kwargs);
    Py_XDECREF(dynamic.statics);
    return results;
}

/* Whether the current trace is one that runs known calls; -1 on errors. */
static int runs_known_calls(void) {
    PyObject *trace = PyObject_GetAttr(context, s_trace);
    PyObject *runs = trace ? PyObject_GetAttr(trace, s_runs_known_calls) : NULL;
    int result = runs ? runs == Py_True : -1;
    Py_XDECREF(trace);
    Py_XDECREF(runs);
    return result;
}

static int are_arrays(const Arguments *all) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all->args); i++)
        if (Py_TYPE(PyTuple_GET_ITEM(all->args, i)) != array) return 0;
    return !has_kwargs(all);
}

static PyObject *call(PyObject *known, PyObject *args, PyObject *kwargs) {
    PyObject *chosen = SLOT(known, static_at);
    Arguments all = {args, kwargs, NULL};
    if (chosen == Py_None) return call_with(known, &all);
    if (!PyDict_GET_SIZE(SLOT(known, direct_at)) && !PyDict_GET_SIZE(SLOT(known, in_trees_at)) &&
        !PyDict_GET_SIZE(SLOT(known, in_nodes_at)))
        return Py_NewRef(Py_NotImplemented);
    Choice choice = {
        PyTuple_GET_ITEM(chosen, 0), PyTuple_GET_ITEM(chosen, 1), SLOT(known, by_value_at) == Py_True, &all};
    if (!choice.by_value) return call_without_static(known, &choice);
    int runs = runs_known_calls();
    if (runs <= 0) return runs < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    if (!are_arrays(&all)) return call_without_static(known, &choice);
    all.statics = no_statics;
    return call_with(known, &all);
}

static PyObject *call_known(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3 || Py_TYPE(arguments[0]) != known_calls)
        return PyErr_Format(PyExc_TypeError, "call_known takes known calls, positional and keyword arguments");
    return call(arguments[0], arguments[1], arguments[2]);
}

typedef struct {
    PyObject_HEAD
    PyObject *known;
} KnownCaller;

static PyMemberDef caller_members[] = {
    {"known", T_OBJECT_EX, offsetof(KnownCaller, known), 0, "The `KnownCalls` that calls are looked up in."},
    {NULL},
};

static PyObject *caller_call(KnownCaller *self, PyObject *args, PyObject *kwargs) {
    int runs = runs_known_calls();
    if (runs < 0) return NULL;
    if (runs && self->known && Py_TYPE(self->known) == known_calls) {
        PyObject *known = Py_NewRef(self->known), *results = call(known, args, kwargs);
        Py_DECREF(known);
        if (results != Py_NotImplemented) return results;
        Py_DECREF(results);
    }
    PyObject *dict = kwargs ? Py_NewRef(kwargs) : PyDict_New(), *results = NULL;
    if (dict) results = PyObject_CallMethodObjArgs((PyObject *)self, s_call, args, dict, NULL);
    Py_XDECREF(dict);
    return results;
}

static int caller_traverse(KnownCaller *self, visitproc visit, void *arg) {
    Py_VISIT(self->known);
    return 0;
}

static int caller_clear(KnownCaller *self) {
    Py_CLEAR(self->known);
    return 0;
}

static void caller_dealloc(KnownCaller *self) {
    PyObject_GC_UnTrack(self);
    caller_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject caller_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "xpr.compile._known_calls.KnownCaller",
    .tp_doc = "See known_calls.py.",
    .tp_basicsize = sizeof(KnownCaller),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_call = (ternaryfunc)caller_call,
    .tp_new = PyType_GenericNew,
    .tp_members = caller_members,
    .tp_traverse = (traverseproc)caller_traverse,
    .tp_clear = (inquiry)caller_clear,
    .tp_dealloc = (destructor)caller_dealloc,
};

/* What known_calls.py gives by these names. */
static const struct {
    const char *name;
    PyObject **kept_in;
} names[] = {
    {"Array", (PyObject **)&array}, {"KnownCalls", (PyObject **)&known_calls}, {"context", &context},
    {"settings", &settings}, {"config", &config}, {"INEXACT", &inexact}, {"dtype", &dtype_class},
    {"generic", (PyObject **)&numpy_scalar}, {"plain_type", &plain_type}, {"cache_key", &cache_key},
    {"keep_until_done", &keep_until_done}, {"keep_if_latest", &keep_if_latest}, {"put", &put},
    {"new_buffers", &new_buffers},
    {"flatten_plain", &flatten_plain}, {"flatten_nodes", &flatten_nodes},
};

static PyObject *bind(PyObject *module, PyObject *namespace) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PyObject *value = PyMapping_GetItemString(namespace, names[i].name);
        if (!value) return NULL;
        *names[i].kept_in = value; /* for as long as the process lasts */
    }
    PyObject *arrays = (PyObject *)array, *calls = (PyObject *)known_calls;
    aval_at = offset_of(arrays, "aval"), host_at = offset_of(arrays, "_host");
    buffer_at = offset_of(arrays, "_buffer"), device_at = offset_of(arrays, "_device");
    direct_at = offset_of(calls, "direct"), in_trees_at = offset_of(calls, "in_trees");
    in_nodes_at = offset_of(calls, "in_nodes"), static_at = offset_of(calls, "static");
    by_value_at = offset_of(calls, "by_value"), offered_at = offset_of(calls, "offered");
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_O, "Tells the module, once, what it works with, by names."},
    {"call_known", (PyCFunction)(void (*)(void))call_known, METH_FASTCALL, "See known_calls.py."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_known_calls", NULL, -1, functions};

PyMODINIT_FUNC PyInit__known_calls(void) {
    s_block_until_ready = PyUnicode_InternFromString("block_until_ready");
    s_buffer = PyUnicode_InternFromString("buffer");
    s_call = PyUnicode_InternFromString("call");
    s_consume_token = PyUnicode_InternFromString("consume_token");
    s_consume_with_handlers = PyUnicode_InternFromString("consume_with_handlers");
    s_dtype = PyUnicode_InternFromString("dtype");
    s_is_ready = PyUnicode_InternFromString("is_ready");
    s_keyed = PyUnicode_InternFromString("_keyed");
    s_updates = PyUnicode_InternFromString("_updates");
    s_runs_known_calls = PyUnicode_InternFromString("runs_known_calls");
    s_trace = PyUnicode_InternFromString("trace");
    s_trace_key = PyUnicode_InternFromString("trace_key");
    no_statics = PyTuple_New(0);
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddType(module, &caller_type) < 0) Py_CLEAR(module);
    return module;
}
