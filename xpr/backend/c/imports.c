/* What a loaded library has of others: their functions' addresses, which can be replaced (imports.h). */

#include "imports.h"

#ifdef REPLACES_IMPORTS

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where a library has addresses of what others define: `entries` say each place, and the symbol. */
struct imports {
    const ElfW(Rela) *entries;
    size_t count;
};

struct loaded {
    const char *path; /* a part of it, to find the library; then the whole */
    char *start;
    struct imports imports[2]; /* of calls, and of other uses */
    const ElfW(Sym) *symbols;
    const char *names;
    char *constant, *variable; /* the pages from the first to the second are read-only */
};

static char *page_of(char *place) { return place - (uintptr_t)place % sysconf(_SC_PAGESIZE); }

static int read_tables(struct dl_phdr_info *library, size_t unused, void *result) {
    struct loaded *loaded = result;
    const ElfW(Dyn) *entry = NULL;
    size_t relative = 0; /* so many entries come first that have no symbol */
    (void)unused;
    if (!strstr(library->dlpi_name, loaded->path)) return 0;
    loaded->path = library->dlpi_name, loaded->start = (char *)library->dlpi_addr;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        char *start = loaded->start + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC && part->p_flags & PF_W) entry = (void *)start; /* glibc has made addresses of it */
        if (part->p_type == PT_GNU_RELRO) loaded->constant = start, loaded->variable = page_of(start + part->p_memsz);
    }
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *address = (void *)entry->d_un.d_ptr;
        size_t number = entry->d_un.d_val;
        if (entry->d_tag == DT_JMPREL) loaded->imports[0].entries = address;
        if (entry->d_tag == DT_PLTRELSZ) loaded->imports[0].count = number / sizeof(ElfW(Rela));
        if (entry->d_tag == DT_RELA) loaded->imports[1].entries = address;
        if (entry->d_tag == DT_RELASZ) loaded->imports[1].count = number / sizeof(ElfW(Rela));
        if (entry->d_tag == DT_RELACOUNT) relative = number;
        if (entry->d_tag == DT_SYMTAB) loaded->symbols = address;
        if (entry->d_tag == DT_STRTAB) loaded->names = address;
    }
    loaded->imports[1].entries += relative, loaded->imports[1].count -= relative;
    return 1;
}

/* The function that the library calls by this name: the program's, or of the libraries that it needs; NULL if there is none. */
static void *called(const struct loaded *loaded, const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name), *library = function ? NULL : dlopen(loaded->path, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return function;
    function = dlsym(library, name);
    dlclose(library);
    return function;
}

static int replace(const struct loaded *loaded, const struct replacement *replaced) {
    void *function = called(loaded, replaced->name);
    int count = 0;
    if (!function) return 0;
    for (const struct imports *imports = loaded->imports; imports < loaded->imports + 2; imports++)
        for (size_t i = 0; i < imports->count; i++) {
            const ElfW(Rela) *entry = &imports->entries[i];
            const ElfW(Sym) *symbol = &loaded->symbols[entry->r_info >> 32];
            if (symbol->st_shndx != SHN_UNDEF || strcmp(loaded->names + symbol->st_name, replaced->name)) continue;
            char *place = loaded->start + entry->r_offset;
            int is_function = imports == loaded->imports || *(void **)place == function; /* calls are perhaps not bound yet */
            int is_constant = place >= loaded->constant && place < loaded->variable;
            size_t size = sysconf(_SC_PAGESIZE);
            if (!is_function || (is_constant && mprotect(page_of(place), size, PROT_READ | PROT_WRITE))) continue;
            *(void **)place = replaced->function;
            if (is_constant) mprotect(page_of(place), size, PROT_READ);
            count++;
        }
    return count;
}

void *xpr_import(const char *path, const char *name) {
    struct loaded loaded = {.path = path};
    return dl_iterate_phdr(read_tables, &loaded) ? called(&loaded, name) : NULL;
}

int xpr_replace_imports(const char *path, const struct replacement *replacements, int count) {
    struct loaded loaded = {.path = path};
    int i = 0;
    if (dl_iterate_phdr(read_tables, &loaded))
        while (i < count && replace(&loaded, &replacements[i])) i++;
    return i;
}

#endif
