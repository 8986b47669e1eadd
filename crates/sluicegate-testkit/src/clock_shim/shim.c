// Moves the clocks of the process it is preloaded into (LD_PRELOAD).
// SLUICEGATE_CLOCK_OFFSET_FILE names a file of two 64-bit numbers, nanoseconds added to the wall clock and to the
// monotonic clock. It is mapped, so a change is seen by the next call.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none[2];
static const volatile int64_t *offsets = none;

__attribute__((constructor)) static void map_offsets(void) {
    const char *path = getenv("SLUICEGATE_CLOCK_OFFSET_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) offsets = mapped;
}

// Processor time is not moved: it is not a time of day.
static int64_t offset_of(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: case CLOCK_TAI: return offsets[0];
    case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_COARSE: case CLOCK_MONOTONIC_RAW: case CLOCK_BOOTTIME: return offsets[1];
    default: return 0;
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (failed) return failed;
    int64_t nanoseconds = now->tv_nsec + offset_of(clock) % 1000000000;
    now->tv_sec += offset_of(clock) / 1000000000;
    if (nanoseconds < 0) { nanoseconds += 1000000000; now->tv_sec--; }
    if (nanoseconds >= 1000000000) { nanoseconds -= 1000000000; now->tv_sec++; }
    now->tv_nsec = nanoseconds;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    if (failed) return failed;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (out) *out = precise.tv_sec;
    return precise.tv_sec;
}
