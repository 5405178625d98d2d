#pragma once
#include <stdbool.h>
#include <stddef.h>

/*
 * The probe tries everything that a sandbox promises to refuse, and prints one JSON line per check. PASS:
 * the attempt was refused. FAIL: it was not. SKIP: this run could not decide.
 *
 * It is run on the bare host as root too, as a control, so every attempt must be harmless where it
 * succeeds: files are opened for writing but never written, system calls get arguments that fail
 * after the permission check, sockets are created but send nothing, and whatever changes the
 * process itself happens in a child that ends at once.
 *
 * Facts about the host (canary paths, pids, ports) come as key=value arguments.
 */

#define PROBE_COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct probe_check {
    int row; /* in the table of promises */
    const char *id;
    void (*run)(void); /* must end with a verdict, not return */
};

struct probe_table {
    const struct probe_check *checks;
    size_t count;
};

extern const struct probe_table probe_fs, probe_mounts, probe_proc, probe_dev, probe_id, probe_abi,
    probe_ns, probe_syscalls, probe_net, probe_misc;

/* Verdicts: report and end the process of this check. */
_Noreturn void probe_pass(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void probe_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void probe_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The value of a key=value argument. _need() skips the check if the key was not given. */
const char *probe_arg(const char *key);
const char *probe_need(const char *key);
long probe_need_long(const char *key);

/* Collects findings. _conclude() fails with the list, or passes if it is empty. */
void probe_found(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void probe_conclude(const char *if_none);

/* Whether errnum means that the call was refused, not that its arguments were invalid. */
bool probe_refused(int errnum);

/*
 * One system call with constant arguments. Run in a child of its own, since some of them change
 * the caller when they succeed. Integers are given as pointers: the kernel sees a register.
 */
struct probe_call {
    const char *name;
    long nr;
    const void *arg[6];
};
#define PROBE_INT(n) ((const void *)(long)(n))

/* Runs every call; passes when all are refused, else fails naming those that were not. */
_Noreturn void probe_all_refused(const struct probe_call *calls, size_t count);

/* Runs fn in a child and returns what it returned (0 or an errno), or -signal. */
int probe_in_child(int (*fn)(void *), void *arg);

/* Whether fd is /dev/null, which masks files. */
bool probe_is_null(int fd);
/* Whether the file can be read and has content: not absent, denied, empty or /dev/null. */
bool probe_readable(const char *path);
/* Opens for writing without writing; true when that works on something other than /dev/null. */
bool probe_writable(const char *path);
/* Reads at most size-1 bytes into buf and terminates it; -1 with errno on failure. */
long probe_read(const char *path, char *buf, size_t size);

/*
 * Calls fn for each process to inspect: inside a sandbox every visible process, on the host only the
 * harness's own canary process, to leave other processes alone.
 */
void probe_each_process(void (*fn)(long pid));

/* Remembers which descriptors we were started with, before the probe opens any itself. */
void probe_note_descriptors(void);

/* The other roles of the program (canary.c, bomb.c); they return its exit status. */
int probe_canary(void);
int probe_bomb(const char *name, long cap, bool hold, const char *file);
/* A sandbox with a network (network.c). */
int probe_network(int argc, char **argv);
/* Helpers for attacks from outside (helper.c). */
int probe_helper(int argc, char **argv);
