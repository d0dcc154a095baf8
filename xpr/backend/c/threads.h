/* Work that is divided among threads. */

#define WORTH_A_THREAD 6e4      /* nanoseconds; for less work no thread is woken */
#define NANOSECONDS_A_BYTE 0.04 /* to read memory */

typedef void (*part_function)(void *argument, long long from, long long to);

/* Calls `part(argument, from, to)` for parts of the range from 0 to n, in any order and by several threads if that is faster:
   each of the n takes about `nanoseconds`. */
void xpr_parallel_for(part_function part, void *argument, long long n, double nanoseconds);

int xpr_threads(void); /* how many would compute a call now, the caller included */
