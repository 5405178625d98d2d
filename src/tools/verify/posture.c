#include "tools/verify/posture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include "base/fd.h"
#include "sys/caps.h"
#include "tools/verify/probe_run.h"
#include "tools/verify/report.h"
#include "tools/verify/seen.h"

#define APPEAR_MS 10000
#define MINE                                                                                 \
    "compare with docs/security.md what the provider sets up, and report it as SECURITY.md " \
    "says"

enum { NNP, SECCOMP, KUID, UNIQUE, USERNS, NAMESPACES, CAPS, FDS, INIT, SEALED, OOM, LIMITS };

const struct atoll_check atoll_posture_checks[] = {
    [NNP] = {"seen.nnp", "39", "the kernel has no_new_privs on record", MINE},
    [SECCOMP] = {"seen.seccomp", "40", "the kernel has a filter on record", MINE},
    [KUID] = {"seen.kuid", "36", "on the host no process of a sandbox has id 0", MINE},
    [UNIQUE] = {"seen.kuid_unique", "36", "no two sandboxes share an id on the host", MINE},
    [USERNS] = {"seen.userns", "37", "the user namespace is not the host's", MINE},
    [NAMESPACES] = {"seen.namespaces", "45", "no other namespace is the host's", MINE},
    [CAPS] = {"seen.caps", "32", "capabilities on record are none, or those of root inside", MINE},
    [FDS] = {"seen.fds", "76", "a command holds its three standard streams only", MINE},
    [INIT] = {"seen.init", "25", "the first process shows nothing of the host", MINE},
    [SEALED] = {"seen.sealed", "24", "its program is sealed or on a read-only mount", MINE},
    [OOM] = {"seen.oom", "80", "when memory runs out, the first process goes last", MINE},
    [LIMITS] = {"seen.limits", "80", "the cgroup of a command limits memory, processes and CPU",
                "`atoll doctor` says which limits this host can enforce; look whether the sandbox "
                "waives some"},
};
const size_t atoll_posture_checks_count = ATOLL_ARRAY_LEN(atoll_posture_checks);

/* A process to inspect, PID 1 of its sandbox, and a process of another sandbox. */
struct subject {
    pid_t pid, init, other;
    uint64_t caps; /* allowed capabilities */
    const char *state_dir;
    const struct atoll_box *box; /* its sandbox, or NULL */
};

struct finding {
    enum atoll_verdict verdict;
    char text[400];
};

static void found(struct finding *f, const char *fmt, ...) ATOLL_PRINTF(2, 3);

static void found(struct finding *f, const char *fmt, ...)
{
    size_t used = f->verdict == ATOLL_VERDICT_FOUND ? strlen(f->text) : 0;
    va_list ap;

    f->verdict = ATOLL_VERDICT_FOUND;
    if (used > 0 && used + 3 < sizeof(f->text))
        used += (size_t)snprintf(f->text + used, sizeof(f->text) - used, ", ");
    va_start(ap, fmt);
    (void)vsnprintf(f->text + used, sizeof(f->text) - used, fmt, ap);
    va_end(ap);
}

static void cannot_look(struct finding *f, const char *what, int r)
{
    if (f->verdict == ATOLL_VERDICT_FOUND)
        return;
    f->verdict = ATOLL_VERDICT_UNKNOWN;
    (void)snprintf(f->text, sizeof(f->text), "%s: %s", what, strerror(-r));
}

/* Checks that a status field of the process and of PID 1 of its sandbox is `want`. */
static void field_is(const struct subject *s, const char *field, const char *want,
                     struct finding *f)
{
    const pid_t pids[] = {s->pid, s->init};
    char value[128];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pids) && pids[i]; i++) {
        int r = atoll_seen_status(pids[i], field, value, sizeof(value));
        if (r < 0)
            cannot_look(f, field, r);
        else if (strcmp(value, want) != 0)
            found(f, "%s %s is %s", i == 0 ? "a command's" : "the first process's", field, value);
    }
}

static void judge_nnp(const struct subject *s, struct finding *f)
{
    field_is(s, "NoNewPrivs", "1", f);
}

static void judge_seccomp(const struct subject *s, struct finding *f)
{
    field_is(s, "Seccomp", "2", f);
}

/* Whether a blank-separated list of numbers contains 0. */
static bool holds_zero(const char *list)
{
    for (char *end; *list; list = end) {
        unsigned long n = strtoul(list, &end, 10);
        if (end == list)
            break;
        if (n == 0)
            return true;
    }
    return false;
}

static void judge_kuid(const struct subject *s, struct finding *f)
{
    static const char *const fields[] = {"Uid", "Gid", "Groups"};
    const pid_t pids[] = {s->pid, s->init};
    char value[1024];

    for (size_t k = 0; k < ATOLL_ARRAY_LEN(fields); k++)
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(pids) && pids[i]; i++) {
            int r = atoll_seen_status(pids[i], fields[k], value, sizeof(value));
            if (r < 0)
                cannot_look(f, fields[k], r);
            else if (holds_zero(value))
                found(f, "%s of %s: %s", fields[k], i == 0 ? "a command" : "the first process",
                      value);
        }
}

static void judge_unique(const struct subject *s, struct finding *f)
{
    char first[128], second[128];
    int r = s->other ? atoll_seen_status(s->pid, "Uid", first, sizeof(first)) : -ESRCH;

    if (r == 0)
        r = atoll_seen_status(s->other, "Uid", second, sizeof(second));
    if (r < 0)
        cannot_look(f, "ids of two sandboxes", r);
    else if (strcmp(first, second) == 0)
        found(f, "two sandboxes are user %.*s on the host", (int)strcspn(first, "\t"), first);
}

static void judge_namespace(const struct subject *s, const char *kind, struct finding *f)
{
    const pid_t pids[] = {s->pid, s->init};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pids) && pids[i]; i++) {
        int r = atoll_seen_same_ns(pids[i], getpid(), kind);
        if (r < 0)
            cannot_look(f, kind, r);
        else if (r == 1)
            found(f, "%s of %s", kind, i == 0 ? "a command" : "the first process");
    }
}

static void judge_userns(const struct subject *s, struct finding *f)
{
    judge_namespace(s, "user", f);
}

static void judge_namespaces(const struct subject *s, struct finding *f)
{
    static const char *const kinds[] = {"cgroup", "ipc", "mnt", "net", "pid", "uts"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        judge_namespace(s, kinds[i], f);
}

static void judge_caps(const struct subject *s, struct finding *f)
{
    static const char *const fields[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    char value[64];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fields); i++) {
        int r = atoll_seen_status(s->pid, fields[i], value, sizeof(value));
        if (r < 0)
            cannot_look(f, fields[i], r);
        else if (strtoull(value, NULL, 16) & ~s->caps)
            found(f, "%s is %s", fields[i], value);
    }
}

static void judge_fd(const struct subject *s, const char *name, struct finding *f)
{
    char path[320], target[128] = "";
    struct stat st;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)s->pid, name);
    n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    if (strlen(name) != 1 || name[0] > '2')
        found(f, "%s is %s", name, target);
    else if (stat(path, &st) == 0 && !S_ISFIFO(st.st_mode) && strcmp(target, "/dev/null") != 0)
        found(f, "%s is %s", name, target);
}

static void judge_fds(const struct subject *s, struct finding *f)
{
    char path[64];
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)s->pid);
    dir = opendir(path);
    if (!dir) {
        cannot_look(f, "descriptors", -errno);
        return;
    }
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            judge_fd(s, entry->d_name, f);
    (void)closedir(dir);
}

static void judge_init(const struct subject *s, struct finding *f)
{
    char text[4096], path[64];
    int n = s->init ? atoll_seen_read(s->init, "environ", text, sizeof(text)) : -ESRCH;

    if (n < 0)
        cannot_look(f, "the first process", n);
    else if (n > 0)
        found(f, "it has an environment: %.60s", text);
    n = s->init ? atoll_seen_read(s->init, "cmdline", text, sizeof(text)) : -ESRCH;
    if (n > 0 && memchr(text, '/', (size_t)n))
        found(f, "its command line is %.60s", text);
    (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)s->init);
    n = (int)readlink(path, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    if (s->state_dir && strstr(text, s->state_dir))
        found(f, "its program is %.100s", text);
}

static void judge_sealed(const struct subject *s, struct finding *f)
{
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct statvfs fs;
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)s->init);
    fd = s->init ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        cannot_look(f, "the program of the first process", s->init ? -errno : -ESRCH);
    else if ((fcntl(fd, F_GET_SEALS) & needed) == needed && fcntl(fd, F_GET_SEALS) >= 0)
        return;
    else if (fstatvfs(fd, &fs) < 0 || !(fs.f_flag & ST_RDONLY))
        found(f, "neither");
}

/* Reads a limit of the process's cgroup: the file `v1` or `v2` of the first cgroup that has one. */
static int cgroup_value(pid_t pid, const char *controller, const char *v1, const char *v2,
                        char *out, size_t cap)
{
    char text[4096], path[1024], *rest = text, *line;
    int r = atoll_seen_read(pid, "cgroup", text, sizeof(text));

    while (r >= 0 && (line = strsep(&rest, "\n")) != NULL) {
        char *names = strchr(line, ':');
        char *below = names ? strchr(names + 1, ':') : NULL;
        if (!below)
            continue;
        *below++ = '\0';
        names++;
        if (!*names)
            (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", below, v2);
        else if (strstr(names, controller))
            (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s/%s", names, below, v1);
        else
            continue;
        if (atoll_fd_read_file(AT_FDCWD, path, out, cap) >= 0) {
            out[strcspn(out, "\n")] = '\0';
            return 0;
        }
    }
    return r < 0 ? r : -ENOENT;
}

static void judge_limits(const struct subject *s, struct finding *f)
{
    static const struct {
        const char *limit, *controller, *v1, *v2;
    } files[] = {{"memory", "memory", "memory.limit_in_bytes", "memory.max"},
                 {"pids", "pids", "pids.max", "pids.max"},
                 {"cpu", "cpu", "cpu.cfs_quota_us", "cpu.max"}};
    char value[64];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(files); i++) {
        int r;
        if (s->box && atoll_box_waives(s->box, files[i].limit))
            continue;
        r = cgroup_value(s->pid, files[i].controller, files[i].v1, files[i].v2, value,
                         sizeof(value));
        if (r == -ENOENT) /* no cgroup of its own */
            found(f, "no %s", files[i].v1);
        else if (r < 0)
            cannot_look(f, files[i].limit, r);
        else if (strncmp(value, "max", 3) == 0 || value[0] == '-' || strlen(value) >= 19)
            found(f, "%s is %s", files[i].limit, value);
    }
}

static int oom_score(pid_t pid, long *ret)
{
    char text[32];
    int r = pid ? atoll_seen_read(pid, "oom_score_adj", text, sizeof(text)) : -ESRCH;

    *ret = r < 0 ? 0 : strtol(text, NULL, 10);
    return r;
}

static void judge_oom(const struct subject *s, struct finding *f)
{
    long first, command;
    int r = oom_score(s->init, &first);

    if (r >= 0)
        r = oom_score(s->pid, &command);
    if (r < 0)
        cannot_look(f, "oom_score_adj", r);
    else if (first >= command)
        found(f, "the first process has %ld, a command %ld", first, command);
}

static void (*const judges[])(const struct subject *, struct finding *) = {
    [NNP] = judge_nnp,       [SECCOMP] = judge_seccomp, [KUID] = judge_kuid,
    [UNIQUE] = judge_unique, [USERNS] = judge_userns,   [NAMESPACES] = judge_namespaces,
    [CAPS] = judge_caps,     [FDS] = judge_fds,         [INIT] = judge_init,
    [OOM] = judge_oom,       [SEALED] = judge_sealed,   [LIMITS] = judge_limits,
};

/* tier NULL: the control. */
static void judge(const struct atoll_verify *v, const struct atoll_tier *tier,
                  const struct subject *s)
{
    for (size_t i = 0; i < atoll_posture_checks_count; i++) {
        const struct atoll_check *check = &atoll_posture_checks[i];
        struct finding f = {ATOLL_VERDICT_HOLDS, "as the host's kernel has it"};
        if (!atoll_verify_wants(v, check))
            continue;
        judges[i](s, &f);
        if (tier)
            atoll_tier_add(v, tier, check, f.verdict, "%s", f.text);
        else
            atoll_report_add(v->report, ATOLL_TIER_CONTROL, check, f.verdict, "%s", f.text);
    }
}

static int start_idle(const struct atoll_box *box, const char *user, pid_t *ret_pid,
                      struct atoll_error *err)
{
    char marker[ATOLL_SEEN_MARK_MAX];
    const char *const argv[] = {ATOLL_PROBE_INSIDE, "--idle", marker, NULL};
    int r;

    atoll_seen_mark(marker);
    r = atoll_box_detach(box, user, argv, NULL, err);
    if (r == 0)
        *ret_pid = atoll_seen_wait(marker, 1, APPEAR_MS);
    return r;
}

static void nothing_seen(const struct atoll_verify *v, const struct atoll_tier *tier)
{
    for (size_t i = 0; i < atoll_posture_checks_count; i++)
        if (atoll_verify_wants(v, &atoll_posture_checks[i]))
            atoll_tier_add(v, tier, &atoll_posture_checks[i], ATOLL_VERDICT_UNKNOWN,
                           "no process of the sandbox is visible here");
}

int atoll_posture_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                      const struct atoll_box *first, const struct atoll_box *second,
                      struct atoll_error *err)
{
    struct subject s = {.caps =
                            strcmp(tier->kind.user, "root") == 0 ? atoll_caps_of_sandbox_root() : 0,
                        .state_dir = v->state_dir,
                        .box = first};
    int r;

    if (!atoll_tier_wants(v, atoll_posture_checks, atoll_posture_checks_count))
        return 0;
    if (strcmp(tier->isolation, "gvisor") == 0) {
        nothing_seen(v, tier);
        return 0;
    }
    r = start_idle(first, tier->kind.user, &s.pid, err);
    if (r == 0)
        r = start_idle(second, tier->kind.user, &s.other, err);
    if (r < 0)
        return r;
    if (!s.pid) {
        nothing_seen(v, tier);
        return 0;
    }
    s.init = atoll_seen_init_of(s.pid);
    judge(v, tier, &s);
    return 0;
}

void atoll_posture_control(const struct atoll_verify *v, const struct atoll_canary *canary)
{
    const struct subject s = {.pid = canary->process.pid,
                              .init = canary->process.pid,
                              .other = getpid(),
                              .state_dir = v->state_dir};
    judge(v, NULL, &s);
}
