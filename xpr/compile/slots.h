/* The slots of instances of classes that are written in Python, for _known_calls.c and _known_operations.c. */

#include <Python.h>
#include <structmember.h>

#define SLOT(object, at) (*(PyObject **)((char *)(object) + (at)))

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
