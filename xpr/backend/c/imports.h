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
    void *function; /* that the library is to call */
};

/* Replaces functions of a library whose path has the part `path`, one after the other up to the first that it doesn't call;
   returns how many. */
int xpr_replace_imports(const char *path, const struct replacement *replacements, int count);

/* The function that the library calls by a name; NULL if there is none. */
void *xpr_import(const char *path, const char *name);

#endif
