/* What managers and pilots are made to see, so that no test touches the machine. Loaded by LD_PRELOAD.
 * PILOTFISH_TEST_CLOCKS: a folder of files `manager` and `agent` that say by how much clocks are off at the moment, and which
 * process is not to go on when it reads one.
 * PILOTFISH_TEST_NETWORK: a file that names the network that pilots which start now are in; empty: their manager's.
 * TEST_NO_LOCKS: managers find a file system without locks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds to add: to the time of day, and to the clocks that only go forward. The process that stands still: no
 * signal makes it go on. */
struct shift { volatile int64_t wall, steady, held; };

static const struct shift *shift;
static int has_no_locks;

/* "serve" is the manager, "agent run" a pilot; everybody else has the machine's clocks. */
static const char *role(void) {
    static char line[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? 0 : read(file, line, sizeof line - 16);
    if (file >= 0) close(file);
    if (n <= 0) return NULL;
    const char *first = line + strlen(line) + 1, *second = first + strlen(first) + 1;
    if (!strcmp(first, "serve")) return "manager";
    return !strcmp(first, "agent") && !strcmp(second, "run") ? "agent" : NULL;
}

static void take_clocks(const char *folder, const char *who) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, who);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *map = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) shift = map;
}

/* A pilot in another network than the test wants would prove nothing: it does not start. */
static void enter_network(const char *named) {
    char path[256];
    int file = open(named, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, path, sizeof path - 1);
    if (n == 0) return;
    path[n < 0 ? 0 : n] = 0;
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || setns(file, CLONE_NEWNET)) _exit(99);
}

__attribute__((constructor)) static void begin(void) {
    const char *clocks = getenv("PILOTFISH_TEST_CLOCKS"), *network = getenv("PILOTFISH_TEST_NETWORK"), *who = role();
    if (!who) return;
    has_no_locks = !strcmp(who, "manager") && getenv("TEST_NO_LOCKS");
    if (clocks) take_clocks(clocks, who);
    if (network && !strcmp(who, "agent")) enter_network(network);
}

static void add(struct timespec *time, int64_t ns) {
    int64_t sum = time->tv_sec * 1000000000LL + time->tv_nsec + ns;
    if (sum < 0) sum = 0;
    time->tv_sec = sum / 1000000000;
    time->tv_nsec = sum % 1000000000;
}

static int real_gettime(clockid_t id, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return real(id, time);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    while (shift && shift->held && shift->held == getpid()) usleep(1000);
    int result = real_gettime(id, time);
    if (result || !shift) return result;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) add(time, shift->wall);
    if (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_BOOTTIME)
        add(time, shift->steady);
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

/* Rust waits on futexes until a time of the steady clock, which the kernel knows without the shift. */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    long a[6];
    struct timespec until;
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(rest, long);
    va_end(rest);
    if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (shift && number == SYS_futex && a[3] && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
        until = *(struct timespec *)a[3];
        add(&until, -(a[1] & FUTEX_CLOCK_REALTIME ? shift->wall : shift->steady));
        a[3] = (long)&until;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A file system without locks, for managers. */
int flock(int file, int operation) {
    if (!has_no_locks) return (int)syscall(SYS_flock, (long)file, (long)operation, 0L, 0L, 0L, 0L);
    errno = ENOLCK;
    return -1;
}
