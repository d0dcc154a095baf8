/* Rows that are divided among threads in groups, each of which has memory of its own to work in. */

#include <stdlib.h>

#include "threads.h"

struct groups {
    void **results;
    const void **operands;
    long long sizes[4]; /* the first one is the number of rows */
    void (*compute)(struct groups *groups, long long row, long long end, void *work);
    int divides_rows; /* whether threads divide a row of the only group */
    char *work;
    long long bytes, count; /* of a group's memory, and how many groups there are */
};

static void compute_some_groups(void *argument, long long from, long long to) {
    struct groups *groups = argument;
    for (long long group = from, rows = groups->sizes[0]; group < to; group++)
        groups->compute(
            groups, rows * group / groups->count, rows * (group + 1) / groups->count, groups->work + group * groups->bytes);
}

/* Computes all rows, each of which takes about so many nanoseconds, with so many bytes of memory: `work`, if there is no more. */
static void compute_groups(struct groups *groups, void *work, long long bytes, double nanoseconds) {
    long long rows = groups->sizes[0], threads = xpr_threads(), count = rows < 2 * threads ? rows : 2 * threads;
    int are_few = rows == 1 || (groups->divides_rows && rows < threads);
    int is_divided = threads > 1 && !are_few && rows * nanoseconds >= WORTH_A_THREAD;
    void *of_groups = is_divided ? malloc(count * bytes) : NULL;
    groups->work = of_groups ? of_groups : work, groups->bytes = bytes, groups->count = of_groups ? count : 1;
    xpr_parallel_for(compute_some_groups, groups, groups->count, rows * nanoseconds / groups->count);
    free(of_groups);
}
