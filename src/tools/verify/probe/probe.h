#pragma once
#include <stdbool.h>
#include <stddef.h>

/*
 * The probe tries, from wherever it runs, everything a sandbox promises to refuse, and prints one
 * JSON line per check. PASS means the property holds (the door is closed), FAIL that it does not,
 * SKIP that this run could not tell.
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
    int row; /* of the table of promises */
    const char *id;
    void (*run)(void); /* ends with a verdict; returning is a bug of the check */
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

/* What the harness told us. _need() skips the check when the key was not given. */
const char *probe_arg(const char *key);
const char *probe_need(const char *key);
long probe_need_long(const char *key);

/* Findings: things that are open. _conclude() fails with the list, or passes when it is empty. */
void probe_found(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void probe_conclude(const char *if_none);

/* True when errnum means that somebody said no, rather than that the arguments were bad. */
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

/* True when fd is /dev/null, which is what files are masked with. */
bool probe_is_null(int fd);
/* True when the file can be read and says something: not absent, denied, empty or /dev/null. */
bool probe_readable(const char *path);
/* Opens for writing without writing; true when that works on something other than /dev/null. */
bool probe_writable(const char *path);
/* Reads at most size-1 bytes into buf and terminates it; -1 with errno on failure. */
long probe_read(const char *path, char *buf, size_t size);

/*
 * Calls fn for each process the harness lets us look at: every one we see inside a sandbox, on the
 * host only the harness's own canary process, because the others are nobody's test material.
 */
void probe_each_process(void (*fn)(long pid));

/* Remembers which descriptors we were started with, before the probe opens any itself. */
void probe_note_descriptors(void);

/* The other roles of the program (canary.c, bomb.c); they return its exit status. */
int probe_canary(void);
int probe_bomb(const char *name, long cap, bool hold, const char *file);
/* For attacks that are made from outside (aide.c). */
int probe_aide(int argc, char **argv);
