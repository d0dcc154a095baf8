/* Worker threads, which help the thread that calls a function of the other files.

   The caller begins at once, and others take what is left when they wake, which takes tens of microseconds on a virtual machine:
   no one waits for a thread that is late. Who has nothing left to do looks for more for a moment before it sleeps. While they
   help one call, another one is computed by its own thread alone. */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "threads.h"

enum { PARTS = 64, MOST_THREADS = 32 }; /* a part is a bit of `taken`; more threads would have to wait for memory */
static const double WORTH_A_CALL = 3e4, WORTH_A_PART = 1.5e4; /* nanoseconds; the first one while workers are awake */
static const int64_t SPIN_NANOSECONDS = 50000;

static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_work = PTHREAD_COND_INITIALIZER, is_done = PTHREAD_COND_INITIALIZER;
static int wanted, is_open;                 /* how many workers there may be; whether they may still begin with the last job */
static atomic_int workers, asleep, at_work; /* how many workers there are, wait for a signal, compute */
static atomic_int jobs;                     /* how many there have been */
static _Atomic uint64_t taken;

static struct {
    part_function part;
    void *argument;
    long long n;
    int parts;
    uint64_t mode; /* of floating-point numbers: the caller's, to which XLA's threads take subnormal ones for zeros */
} job;

#if defined(__SSE__)
#include <xmmintrin.h>
static uint64_t get_mode(void) {
    return _mm_getcsr();
}
static void set_mode(uint64_t mode) {
    _mm_setcsr((unsigned)mode);
}
#elif defined(__aarch64__)
static uint64_t get_mode(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
static void set_mode(uint64_t mode) {
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
#else
static uint64_t get_mode(void) {
    return 0;
}
static void set_mode(uint64_t mode) {
    (void)mode;
}
#endif

/* Each thread begins elsewhere, always at the same part, which may still be in its cache. */
static void compute_parts(int thread) {
    long long n = job.n, parts = job.parts;
    for (long long i = 0, part = parts * thread / (atomic_load(&workers) + 1); i < parts; i++, part = (part + 1) % parts) {
        uint64_t bit = (uint64_t)1 << part;
        if (!(atomic_fetch_or(&taken, bit) & bit)) job.part(job.argument, n * part / parts, n * (part + 1) / parts);
    }
}

static void spin_while_equal(atomic_int *counter, int value) { /* for a moment */
    struct timespec now;
    int64_t start = 0, passed = 0;
    for (; atomic_load(counter) == value && passed < SPIN_NANOSECONDS; passed = now.tv_sec * 1000000000LL + now.tv_nsec - start) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!start) start = now.tv_sec * 1000000000LL + now.tv_nsec;
    }
}

static void *work(void *thread) {
    int last = 0;
    for (;;) {
        spin_while_equal(&jobs, last);
        pthread_mutex_lock(&lock);
        while (atomic_load(&jobs) == last) {
            atomic_fetch_add(&asleep, 1);
            pthread_cond_wait(&is_work, &lock);
            atomic_fetch_sub(&asleep, 1);
        }
        last = atomic_load(&jobs);
        int begins = is_open;
        if (begins) atomic_fetch_add(&at_work, 1);
        pthread_mutex_unlock(&lock);
        if (!begins) continue;
        set_mode(job.mode);
        compute_parts((int)(intptr_t)thread);
        if (atomic_fetch_sub(&at_work, 1) > 1) continue;
        pthread_mutex_lock(&lock);
        pthread_cond_signal(&is_done);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* Signals are for the threads of Python, but for those that say what a thread itself has done. */
static void start_workers(void) {
    static const int of_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t others, before;
    pthread_attr_t detached;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof of_faults / sizeof *of_faults; i++) sigdelset(&others, of_faults[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (pthread_t thread; atomic_load(&workers) < wanted; atomic_fetch_add(&workers, 1))
        if (pthread_create(&thread, &detached, work, (void *)(intptr_t)(atomic_load(&workers) + 1))) break;
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A child process has none of the threads, and may have begun while one had a lock. */
static void forget_workers(void) {
    pthread_mutex_init(&in_use, NULL);
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&is_work, NULL);
    pthread_cond_init(&is_done, NULL);
    is_open = 0;
    atomic_store(&jobs, 0);
    atomic_store(&workers, 0);
    atomic_store(&asleep, 0);
    atomic_store(&at_work, 0);
}

/* How many threads may compute, the one that calls included. Called once. */
void xpr_set_cores(int cores) {
    wanted = (cores < MOST_THREADS ? cores : MOST_THREADS) - 1;
    pthread_atfork(NULL, NULL, forget_workers);
}

int xpr_threads(void) {
    if (pthread_mutex_trylock(&in_use)) return 1;
    pthread_mutex_unlock(&in_use);
    return wanted + 1;
}

void xpr_parallel_for(part_function part, void *argument, long long n, double nanoseconds) {
    double all = n * nanoseconds, parts = all / WORTH_A_PART;
    int are_awake = atomic_load(&workers) > atomic_load(&asleep);
    if (n < 2 || wanted < 1 || all < (are_awake ? WORTH_A_CALL : WORTH_A_THREAD) || pthread_mutex_trylock(&in_use)) {
        part(argument, 0, n);
        return;
    }
    if (!atomic_load(&workers)) start_workers();
    pthread_mutex_lock(&lock);
    job.part = part, job.argument = argument, job.n = n, job.mode = get_mode();
    job.parts = (int)(parts < PARTS ? parts < n ? parts : n : n < PARTS ? n : PARTS);
    atomic_store(&taken, 0);
    is_open = 1;
    atomic_fetch_add(&jobs, 1);
    for (int i = 0, sleepers = atomic_load(&asleep); i < sleepers && i < job.parts - 1; i++) pthread_cond_signal(&is_work);
    pthread_mutex_unlock(&lock);
    compute_parts(0);
    pthread_mutex_lock(&lock);
    is_open = 0;
    int busy = atomic_load(&at_work);
    pthread_mutex_unlock(&lock);
    if (busy) spin_while_equal(&at_work, busy);
    pthread_mutex_lock(&lock);
    while (atomic_load(&at_work)) pthread_cond_wait(&is_done, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&in_use);
}
