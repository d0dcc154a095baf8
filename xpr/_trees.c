/* The leaves of pytrees and what tells their structures, by CPython's interface: see tree.py, whose functions take
   these where a tree has no nodes but tuples, named ones among them, lists, dicts, None and registered classes. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *registered; /* what is known of each class of nodes, whose function to flatten them comes first */
static PyTypeObject *others[3]; /* the classes of other nodes */
static PyObject *s_asdict, *s_dict, *s_fields, *s_make;

/* The static data of a node in the key of a call. An object whose class is written in Python is hashed as its class,
   since its own hash may take longer than the rest of a call: such data are told apart by `==` alone, as in jaxlib's
   structures. */
typedef struct {
    PyObject_HEAD
    PyObject *value;
} StaticData;

/* -1 with an exception if the value, or one in a tuple, has no hash. */
static Py_hash_t hash_of(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyTuple_Type) {
        Py_uhash_t hash = 0x345678;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
            Py_hash_t item = hash_of(PyTuple_GET_ITEM(value, i));
            if (item == -1) return -1;
            hash = hash * 1000003 ^ (Py_uhash_t)item;
        }
        return hash == (Py_uhash_t)-1 ? -2 : (Py_hash_t)hash;
    }
    int in_python = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyType_Check(value);
    if (!in_python || type->tp_hash == PyObject_HashNotImplemented) return PyObject_Hash(value);
    return PyObject_Hash((PyObject *)type);
}

static Py_hash_t static_data_hash(StaticData *self) { return hash_of(self->value); }

static PyObject *static_data_compare(StaticData *self, PyObject *other, int operation) {
    if (operation != Py_EQ || Py_TYPE(other) != Py_TYPE(self)) Py_RETURN_NOTIMPLEMENTED;
    int are_equal = PyObject_RichCompareBool(self->value, ((StaticData *)other)->value, Py_EQ);
    return are_equal < 0 ? NULL : PyBool_FromLong(are_equal);
}

static int static_data_traverse(StaticData *self, visitproc visit, void *arg) {
    Py_VISIT(self->value);
    return 0;
}

static int static_data_clear(StaticData *self) {
    Py_CLEAR(self->value);
    return 0;
}

static void static_data_dealloc(StaticData *self) {
    PyObject_GC_UnTrack(self);
    static_data_clear(self);
    PyObject_GC_Del(self);
}

static PyTypeObject static_data_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "xpr._trees.StaticData",
    .tp_basicsize = sizeof(StaticData),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_hash = (hashfunc)static_data_hash,
    .tp_richcompare = (richcmpfunc)static_data_compare,
    .tp_traverse = (traverseproc)static_data_traverse,
    .tp_clear = (inquiry)static_data_clear,
    .tp_dealloc = (destructor)static_data_dealloc,
};

static PyObject *static_data(PyObject *value) {
    StaticData *data = PyObject_GC_New(StaticData, &static_data_type);
    if (!data) return NULL;
    data->value = Py_NewRef(value);
    PyObject_GC_Track(data);
    return (PyObject *)data;
}

/* What is made of a tree: its leaves, and unless it is NULL what tells its structure. That begins with classes and
   numbers of children, in the order of the leaves, so that it can be read again from the left. With `is_exact` trees
   have the same only if no one could tell their structures apart, by the order of keys or by 1 and True; and it holds
   no object that may hold others. Nodes for which the predicate `is_leaf` is true count as leaves; it is called once for
   each, and what it says is noted in `answers`. Both are NULL if there is none. */
typedef struct {
    PyObject *leaves, *structure, *is_leaf, *answers;
    int is_exact, depth, has_raised; /* has_raised: the predicate has raised an exception */
} Flat;

enum { DEEPEST = 1000 }; /* containers inside each other, of which optree takes no more either */

static int fail(void) {
    PyErr_SetNone(PyExc_NotImplementedError);
    return -1;
}

static int append(PyObject *list, PyObject *item) { /* which it takes, and which may be NULL with an exception */
    int status = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return status;
}

static int holds_nothing(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (PyFunction_Check(value)) {
        PyFunctionObject *function = (PyFunctionObject *)value;
        return !function->func_closure && !function->func_defaults && !function->func_kwdefaults &&
            (!function->func_dict || !PyDict_GET_SIZE(function->func_dict));
    }
    if (PyCFunction_Check(value)) return !PyCFunction_GET_SELF(value) || PyModule_Check(PyCFunction_GET_SELF(value));
    /* an object that is compared by what it is, with room for no more than attributes, of which it has none */
    if (type->tp_richcompare != PyBaseObject_Type.tp_richcompare || type->tp_hash != PyBaseObject_Type.tp_hash) return 0;
    Py_ssize_t most = sizeof(PyObject) + (type->tp_dictoffset > 0 ? sizeof(void *) : 0) +
        (type->tp_weaklistoffset > 0 ? sizeof(void *) : 0);
    if (type->tp_basicsize > most || type->tp_itemsize) return 0;
    PyObject *attributes = PyObject_GetAttr(value, s_dict);
    int holds = attributes ? !PyDict_Check(attributes) || PyDict_GET_SIZE(attributes) : 0;
    if (!attributes) PyErr_Clear();
    Py_XDECREF(attributes);
    return !holds;
}

static PyObject *exact(PyObject *value);

/* A class, followed by what is exact for the items. */
static PyObject *exact_items(PyTypeObject *type, PyObject *items) {
    PyObject *list = items ? PyList_New(0) : NULL, *result = NULL;
    int failed = !list || PyList_Append(list, (PyObject *)type) < 0;
    for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(items); i++)
        failed = append(list, exact(PySequence_Fast_GET_ITEM(items, i))) < 0;
    if (!failed) result = PyList_AsTuple(list);
    Py_XDECREF(list);
    return result;
}

/* A value that equals that of another one only if both are the same to everyone; NULL with an exception if there is
   none. Tuples among these begin with a class, so that no value is taken for another. */
static PyObject *exact(PyObject *value) {
    if (value == Py_None || value == Py_Ellipsis || PyBool_Check(value) || PyUnicode_CheckExact(value) ||
        PyType_Check(value))
        return Py_NewRef(value);
    if (PyLong_CheckExact(value)) return PyTuple_Pack(2, &PyLong_Type, value);
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        return Py_BuildValue("Oy#", &PyFloat_Type, (const char *)&number, (Py_ssize_t)sizeof number);
    }
    if (PyTuple_CheckExact(value)) return exact_items(&PyTuple_Type, value);
    if (PyFrozenSet_CheckExact(value) && !PySet_GET_SIZE(value)) return PyTuple_Pack(1, &PyFrozenSet_Type);
    if (holds_nothing(value)) return Py_NewRef(value);
    fail();
    return NULL;
}

static int flatten(Flat *flat, PyObject *x);

/* Flattens an element of a container that may change meanwhile: comparing keys can run any code. */
static int flatten_kept(Flat *flat, PyObject *x) {
    Py_INCREF(x);
    int status = flatten(flat, x);
    Py_DECREF(x);
    return status;
}

/* Appends a container's type and size to the structure. */
static int describe(Flat *flat, PyObject *x, Py_ssize_t size) {
    if (!flat->structure) return 0;
    return PyList_Append(flat->structure, (PyObject *)Py_TYPE(x)) < 0 ? -1
                                                                     : append(flat->structure, PyLong_FromSsize_t(size));
}

static int flatten_items(Flat *flat, PyObject *items) { /* a tuple or a list */
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); i++)
        if (flatten_kept(flat, PySequence_Fast_GET_ITEM(items, i)) < 0) return -1;
    return 0;
}

static int flatten_dict(Flat *flat, PyObject *dict) {
    PyObject *keys = PyDict_Keys(dict);
    int failed = !keys || describe(flat, dict, PyList_GET_SIZE(keys)) < 0;
    for (Py_ssize_t i = 0; !failed && flat->structure && flat->is_exact && i < PyList_GET_SIZE(keys); i++)
        failed = append(flat->structure, exact(PyList_GET_ITEM(keys, i))) < 0; /* in their order */
    failed = failed || PyList_Sort(keys) < 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i), *value = PyDict_GetItemWithError(dict, key);
        if (!value && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
        failed = !value || (flat->structure && !flat->is_exact && PyList_Append(flat->structure, key) < 0) ||
            flatten_kept(flat, value) < 0;
    }
    Py_XDECREF(keys);
    return failed ? -1 : 0;
}

/* The attributes of an object with these names. */
static PyObject *attributes(PyObject *x, PyObject *names) {
    Py_ssize_t n = PyTuple_GET_SIZE(names);
    PyObject *values = PyTuple_New(n);
    for (Py_ssize_t i = 0; values && i < n; i++) {
        PyObject *value = PyObject_GetAttr(x, PyTuple_GET_ITEM(names, i));
        if (value) PyTuple_SET_ITEM(values, i, value);
        else Py_CLEAR(values);
    }
    return values;
}

/* A node's children and static data, in a tuple: of a dataclass its fields, otherwise what the function of its class
   gives, and perhaps keys. */
static PyObject *parts_of_node(PyObject *registration, PyObject *x) {
    PyObject *fields = PyTuple_GET_ITEM(registration, 1);
    if (fields == Py_None) return PyObject_CallOneArg(PyTuple_GET_ITEM(registration, 0), x);
    PyObject *children = attributes(x, PyTuple_GET_ITEM(fields, 0)), *parts = NULL;
    PyObject *data = children ? attributes(x, PyTuple_GET_ITEM(fields, 1)) : NULL;
    if (data) parts = PyTuple_Pack(2, children, data);
    Py_XDECREF(children);
    Py_XDECREF(data);
    return parts;
}

static int flatten_node(Flat *flat, PyObject *registration, PyObject *x) {
    PyObject *parts = parts_of_node(registration, x), *children = NULL;
    if (!parts) return -1;
    if (PyTuple_Check(parts) && PyTuple_GET_SIZE(parts) >= 2)
        children = PySequence_Fast(PyTuple_GET_ITEM(parts, 0), "children are no sequence");
    else PyErr_SetString(PyExc_TypeError, "not a tuple of children and static data");
    int failed = !children || describe(flat, x, PySequence_Fast_GET_SIZE(children)) < 0;
    if (!failed && flat->structure) {
        PyObject *data = PyTuple_GET_ITEM(parts, 1);
        failed = append(flat->structure, flat->is_exact ? exact(data) : static_data(data)) < 0;
        if (!failed && flat->is_exact && PyTuple_GET_SIZE(parts) > 2) /* keys, which are part of optree's structures */
            failed = append(flat->structure, exact(PyTuple_GET_ITEM(parts, 2))) < 0;
    }
    failed = failed || flatten_items(flat, children) < 0;
    Py_XDECREF(children);
    Py_DECREF(parts);
    return failed ? -1 : 0;
}

static int is_named_tuple(PyObject *x) {
    PyObject *type = (PyObject *)Py_TYPE(x);
    return PyObject_HasAttr(type, s_fields) && PyObject_HasAttr(type, s_make) && PyObject_HasAttr(type, s_asdict);
}

static int add_leaf(Flat *flat, PyObject *x) {
    if (PyList_Append(flat->leaves, x) < 0) return -1;
    return flat->structure ? PyList_Append(flat->structure, Py_Ellipsis) : 0;
}

/* What the predicate says of a node; -1 if it raises an exception. */
static int ask(Flat *flat, PyObject *x) {
    PyObject *answer = PyObject_CallOneArg(flat->is_leaf, x);
    int is_leaf = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    flat->has_raised = is_leaf < 0;
    if (is_leaf >= 0 && PyList_Append(flat->answers, is_leaf ? Py_True : Py_False) < 0) return -1;
    return is_leaf;
}

static int flatten(Flat *flat, PyObject *x) {
    int is_leaf = flat->is_leaf ? ask(flat, x) : 0;
    if (is_leaf) return is_leaf < 0 ? -1 : add_leaf(flat, x);
    PyTypeObject *type = Py_TYPE(x);
    if (x == Py_None) return flat->structure ? PyList_Append(flat->structure, x) : 0;
    PyObject *registration = PyDict_GetItemWithError(registered, (PyObject *)type);
    if (!registration && PyErr_Occurred()) return -1;
    int is_tuple = PyTuple_Check(x);
    if (!registration && !is_tuple && type != &PyList_Type && type != &PyDict_Type) {
        if (type == others[0] || type == others[1] || type == others[2]) return fail();
        return add_leaf(flat, x);
    }
    if (is_tuple && !registration && type != &PyTuple_Type && !is_named_tuple(x)) return fail();
    if (flat->depth >= DEEPEST) return fail();
    flat->depth++;
    int status;
    if (registration) status = flatten_node(flat, registration, x);
    else if (type == &PyDict_Type) status = flatten_dict(flat, x);
    else status = describe(flat, x, PySequence_Fast_GET_SIZE(x)) < 0 ? -1 : flatten_items(flat, x);
    flat->depth--;
    return status;
}

/* None in place of an exception, but for interrupts and the like. */
static PyObject *or_none(PyObject *result) {
    if (result || !PyErr_ExceptionMatches(PyExc_Exception)) return result;
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *flattened(PyObject *tree, int is_exact) {
    Flat flat = {PyList_New(0), PyList_New(0), NULL, NULL, is_exact, 0, 0};
    PyObject *structure = NULL, *result = NULL;
    if (flat.leaves && flat.structure && flatten(&flat, tree) == 0) structure = PyList_AsTuple(flat.structure);
    if (structure) result = PyTuple_Pack(2, flat.leaves, structure);
    Py_XDECREF(flat.leaves);
    Py_XDECREF(flat.structure);
    Py_XDECREF(structure);
    return or_none(result);
}

static PyObject *flatten_plain(PyObject *module, PyObject *tree) { return flattened(tree, 0); }

static PyObject *flatten_exactly(PyObject *module, PyObject *tree) { return flattened(tree, 1); }

static PyObject *flatten_until(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "flatten_until takes a tree and a predicate");
    Flat flat = {PyList_New(0), PyList_New(0), arguments[1], PyList_New(0), 1, 0, 0};
    PyObject *structure = NULL, *result = NULL;
    int failed = !flat.leaves || !flat.structure || !flat.answers || flatten(&flat, arguments[0]) < 0;
    if (!failed) structure = PyList_AsTuple(flat.structure);
    if (structure) result = PyTuple_Pack(3, flat.leaves, structure, flat.answers);
    else if (flat.answers && !flat.has_raised && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        result = PyTuple_Pack(3, Py_None, Py_None, flat.answers);
    }
    Py_XDECREF(flat.leaves);
    Py_XDECREF(flat.structure);
    Py_XDECREF(flat.answers);
    Py_XDECREF(structure);
    return result;
}

static PyObject *leaves(PyObject *module, PyObject *tree) {
    Flat flat = {PyList_New(0), NULL, NULL, NULL, 0, 0, 0};
    if (flat.leaves && flatten(&flat, tree) < 0) Py_CLEAR(flat.leaves);
    return or_none(flat.leaves);
}

static PyObject *bind(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 4) return PyErr_Format(PyExc_TypeError, "bind takes the registered classes and three of other nodes");
    registered = Py_NewRef(arguments[0]); /* for as long as the process lasts */
    for (int i = 0; i < 3; i++) others[i] = (PyTypeObject *)Py_NewRef(arguments[i + 1]);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, "Tells the module, once, which classes have nodes."},
    {"flatten_plain", flatten_plain, METH_O, "The leaves and the structure in the key of a call, see plain_trees.py; None"
                                             " where a dict's keys have no order, or a node's function raises."},
    {"flatten_exactly", flatten_exactly, METH_O, "The same with an exact structure; None where there is none, too."},
    {"flatten_until", (PyCFunction)(void (*)(void))flatten_until, METH_FASTCALL, "The same with a predicate, and what"
        " that says of each node; None, None and what it said of some where `flatten_exactly` gives None."},
    {"leaves", leaves, METH_O, "The leaves; None where `flatten_plain` gives None."},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_trees", NULL, -1, functions};

PyMODINIT_FUNC PyInit__trees(void) {
    s_asdict = PyUnicode_InternFromString("_asdict");
    s_dict = PyUnicode_InternFromString("__dict__");
    s_fields = PyUnicode_InternFromString("_fields");
    s_make = PyUnicode_InternFromString("_make");
    return PyType_Ready(&static_data_type) < 0 ? NULL : PyModule_Create(&definition);
}
