/* Functions that a loaded library calls, replaced by others. */

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#if defined(__linux__) && defined(__LP64__)
#include <features.h>
#endif
#if defined(__linux__) && defined(__LP64__) && defined(__GLIBC__)
#define REPLACES_IMPORTS

struct replacement {
    const char *name;
    void *after;   /* the function that the library is to call */
    void **before; /* gets the one that it has called until now, unless it is NULL */
};

/* Replaces functions of a library, by their order, whose path has the part `path`; returns how many it could: where it calls
   one by no name, that and the later ones remain. */
int xpr_replace_imports(const char *path, const struct replacement *replacements, int count);

#endif
