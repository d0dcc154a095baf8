/* LAPACK's routines, called from compiled programs, each with as many threads as it can use.

   OpenBLAS has threads wait for each other in loops. Where other processes keep the cores busy, a problem of 128 x 128 then
   takes 100 times as long with all threads as with one. So small problems get one thread, with which they are as fast on a
   quiet machine too, and large ones as many as there are cores that other processes leave idle.

   A handler of XLA's foreign function interface has no data of its own, so there is one function for each routine. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* The beginnings of the structures of XLA's interface (xla/ffi/api/c_api.h), whose layout doesn't change. */
typedef struct {
    size_t struct_size;
    void *extension;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
} Buffer;

typedef struct {
    size_t struct_size;
    void *extension;
    const void *api;
    void *context;
    int stage;
    struct {
        size_t struct_size;
        void *extension;
        int64_t size;
        int *types;
        Buffer **values;
    } operands;
} Call;

enum { EXECUTE = 3, ROUTINES = 100, FEW = 8 };

static struct {
    void *(*handler)(Call *);
    int64_t large; /* from how many rows or columns on a matrix is worth several threads */
    int64_t alone; /* for fewer OpenBLAS itself has one thread */
    int64_t alone_with_few; /* and for fewer than these where the other matrix has few rows or columns */
} routines[ROUTINES];
static int (*get_threads)(void);
static void (*set_threads)(int);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls, threads_before; /* how many calls there are now, and what OpenBLAS was set to before the first of them */

/* How many other threads, of all processes, run now or could, as the kernel counts them; 0 if it doesn't say. */
static double running(void) {
    int count = 1;
    FILE *file = fopen("/proc/loadavg", "r");
    if (file) {
        if (fscanf(file, "%*f %*f %*f %d/", &count) != 1) count = 1;
        fclose(file);
    }
    return count - 1;
}

/* The seconds for which the cores have been busy since the machine started; -1 if the kernel doesn't say. */
static double busy_time(void) {
    long user, nice, system, idle, iowait, irq, softirq, steal;
    int found = 0;
    FILE *file = fopen("/proc/stat", "r");
    if (file) {
        found = fscanf(file, "cpu %ld %ld %ld %ld %ld %ld %ld %ld", &user, &nice, &system, &idle, &iowait, &irq, &softirq,
                       &steal);
        fclose(file);
    }
    return found == 8 ? (double)(user + nice + system + irq + softirq + steal) / sysconf(_SC_CLK_TCK) : -1;
}

static double seconds(clockid_t clock) {
    struct timespec time = {0};
    clock_gettime(clock, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* How many cores others use: what other processes used since a call that was less than a second ago. Where there was
   none, the threads that run now are counted, with those of this process that wait in loops. */
static double used_by_others(void) {
    static double at, busy, own, used;
    double now = seconds(CLOCK_MONOTONIC);
    if (now - at < 0.05) return used; /* the kernel counts in hundredths of seconds */
    double busy_now = busy_time(), own_now = seconds(CLOCK_PROCESS_CPUTIME_ID);
    used = now - at < 1 && busy_now >= 0 ? (busy_now - busy - (own_now - own)) / (now - at) : running();
    at = now, busy = busy_now, own = own_now;
    return used;
}

/* How many rows or columns, whichever are more, the first operand's matrices have. */
static int64_t size_of(const Call *call) {
    const Buffer *matrix = call->operands.size ? call->operands.values[0] : NULL;
    int64_t size = 0;
    for (int64_t axis = matrix ? matrix->rank - 2 : 0; matrix && axis < matrix->rank; axis++)
        if (axis >= 0 && matrix->dims[axis] > size) size = matrix->dims[axis];
    return size;
}

/* Whether the second operand's matrices have few rows or columns. */
static int has_few(const Call *call) {
    const Buffer *matrix = call->operands.size > 1 ? call->operands.values[1] : NULL;
    return matrix && matrix->rank > 1 && (matrix->dims[matrix->rank - 1] < FEW || matrix->dims[matrix->rank - 2] < FEW);
}

static void *run(int number, Call *call) {
    void *(*handler)(Call *) = routines[number].handler;
    int64_t size = call->extension || call->stage != EXECUTE ? 0 : size_of(call);
    if (size < routines[number].alone || (size < routines[number].alone_with_few && has_few(call))) return handler(call);
    pthread_mutex_lock(&lock);
    if (!calls++) threads_before = get_threads();
    int most = threads_before, threads = 1;
    if (most > 1 && size >= routines[number].large) {
        threads = (int)(most - used_by_others() + 0.5);
        threads = threads < 1 ? 1 : threads < most ? threads : most;
    }
    pthread_mutex_unlock(&lock);
    if (most > 1) set_threads(threads);
    void *error = handler(call);
    pthread_mutex_lock(&lock);
    if (!--calls && most > 1) set_threads(threads_before);
    pthread_mutex_unlock(&lock);
    return error;
}

#define ONE(n) static void *routine_##n(Call *call) { return run(n, call); }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define NAMES(n) routine_##n##0, routine_##n##1, routine_##n##2, routine_##n##3, routine_##n##4, routine_##n##5, \
                 routine_##n##6, routine_##n##7, routine_##n##8, routine_##n##9
TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
static void *(*const handlers[])(Call *) = {NAMES(), NAMES(1), NAMES(2), NAMES(3), NAMES(4),
                                            NAMES(5), NAMES(6), NAMES(7), NAMES(8), NAMES(9)};

void xpr_set_threads(void *get, void *set) {
    get_threads = (int (*)(void))get;
    set_threads = (void (*)(int))set;
}

/* The handler that calls a routine, which has a number below 100, with several threads for matrices that are large. */
void *xpr_threaded(int number, void *routine, int64_t large, int64_t alone, int64_t alone_with_few) {
    routines[number].handler = (void *(*)(Call *))routine, routines[number].large = large;
    routines[number].alone = alone, routines[number].alone_with_few = alone_with_few;
    return (void *)handlers[number];
}
