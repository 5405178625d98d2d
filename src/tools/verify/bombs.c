#include "tools/verify/bombs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "sys/tree.h"
#include "tools/verify/probe_run.h"
#include "tools/verify/report.h"

#define PIDS 32
#define MIB (1L << 20)
#define MEMORY_MIB 64
#define GVISOR_MEMORY_MIB 160 /* includes the memory of gVisor's kernel */
#define DISK_MIB 32
#define INODES 2000
#define RUN_SECONDS 60
#define CONTROL_MS 30000
#define CPUS 0.5
#define CPU_MOST 0.65
#define CPU_WATCH_MS 1500

#define LIMIT                                                                                   \
    "look at the limits of the request and of the provider; `atoll doctor` says which of them " \
    "this host can enforce"

/* The expected result of a bomb. */
enum judgement {
    STOPPED,  /* an error stops it before its bound */
    HELD,     /* an error or the bound, with no more memory in sockets than the sandbox may have */
    CHARGED,  /* an error, or the out-of-memory killer */
    SURVIVES, /* children are killed for memory, the parent continues to its bound */
    REAPED,   /* the bound is reached, and no zombie is left */
    THROTTLED,
};

static const struct bomb {
    const char *name;
    const char *limit; /* the limit that must stop it, by the name of --waive; "" for none */
    enum judgement judgement;
    long bound, outside; /* of the bomb itself: inside, and for the control */
    long most;           /* highest count allowed inside; 0: any */
    bool spoils;         /* the sandbox is unusable afterwards */
    bool by_root;        /* also run as root inside */
} bombs[] = {
    {"fork", "pids", STOPPED, 600, 64, PIDS, false, true},
    {"threads", "pids", STOPPED, 600, 64, PIDS, false, false},
    {"fds", "", STOPPED, 15000, 15000, 4096, false, true},
    {"inotify", "", STOPPED, 1000, 1000, 0, false, false},
    {"ptys", "", STOPPED, 300, 300, 256, false, false},
    {"keys", "", STOPPED, 10, 10, 0, false, false},
    {"sparse", "disk", STOPPED, 1, 1, 0, false, false},
    {"zombies", "", REAPED, 4 * PIDS, 2 * PIDS, 0, false, false},
    {"disk", "disk", STOPPED, 4 * DISK_MIB, 4 * DISK_MIB, DISK_MIB + DISK_MIB / 4, true, true},
    {"inodes", "disk", STOPPED, 5000, 5000, INODES, true, true},
    {"shm", "memory", CHARGED, 512, 2 * MEMORY_MIB, 0, true, false},
    {"sysvshm", "memory", CHARGED, 512, 2 * MEMORY_MIB, 0, true, false},
    {"pipes", "memory", CHARGED, 10000, 2 * MEMORY_MIB, 0, true, false},
    {"sockbuf", "memory", CHARGED, 10000, 256, 0, true, false},
    {"tcp", "memory", HELD, 400, 400, 0, true, false},
    {"udp", "memory", HELD, 400, 400, 0, true, false},
    {"netlink", "", HELD, 400, 128, 0, true, false},
    {"memory", "memory", CHARGED, 512, 2 * MEMORY_MIB, 0, true, true},
    {"oomloop", "memory", SURVIVES, 5, 1, 0, true, false},
    {"cpu", "cpu", THROTTLED, 0, 0, 0, true, false},
};

/* In the order of bombs[]. */
const struct atoll_check atoll_bomb_checks[] = {
    {"bomb.fork", "79", "a fork bomb meets the limit of processes", LIMIT},
    {"bomb.threads", "79", "so does a bomb of threads", LIMIT},
    {"bomb.fds", "85", "open files end at a limit", LIMIT},
    {"bomb.inotify", "85", "so do inotify instances", LIMIT},
    {"bomb.ptys", "85", "so do terminals, of which the host has few", LIMIT},
    {"bomb.keys", "85", "no key of the kernel is used up", LIMIT},
    {"bomb.sparse", "84", "a sparse file of 8 TiB is refused", LIMIT},
    {"bomb.zombies", "87", "orphans are reaped", LIMIT},
    {"bomb.disk", "83", "the disk is full at its limit", LIMIT},
    {"bomb.inodes", "83", "so are its inodes", LIMIT},
    {"bomb.shm", "81", "memory in /dev/shm is charged", LIMIT},
    {"bomb.sysvshm", "81", "so is System V memory", LIMIT},
    {"bomb.pipes", "82", "so is the kernel's for pipes", LIMIT},
    {"bomb.sockbuf", "82", "so is the kernel's for sockets", LIMIT},
    {"bomb.tcp", "91", "what waits in TCP connections ends at a share of the memory", LIMIT},
    {"bomb.udp", "91", "so does what waits in UDP sockets", LIMIT},
    {"bomb.netlink", "91", "so do answers of the kernel that wait in netlink sockets",
     "boot Linux 5.14 or newer, which can forward system calls to the agent"},
    {"bomb.memory", "80", "memory ends at its limit", LIMIT},
    {"bomb.oomloop", "80", "who dies of memory leaves the others alone", LIMIT},
    {"bomb.cpu", "86", "CPU time is bounded", LIMIT},
};
const size_t atoll_bomb_checks_count = ATOLL_ARRAY_LEN(atoll_bomb_checks);
_Static_assert(ATOLL_ARRAY_LEN(atoll_bomb_checks) == ATOLL_ARRAY_LEN(bombs), "a check for each");

/* The report of a bomb, if it printed one. */
struct story {
    bool told;
    long reached, zombies, bytes;
    char stopped_by[32];
};

static struct story read_story(const char *output)
{
    ATOLL_AUTOJSON json_t *line = atoll_link_parse_json(output, strcspn(output, "\n"));
    struct story story = {.told = line != NULL,
                          .reached = (long)atoll_link_number(line, "reached", 0),
                          .zombies = (long)atoll_link_number(line, "zombies", 0),
                          .bytes = (long)atoll_link_number(line, "bytes", 0)};

    (void)snprintf(story.stopped_by, sizeof(story.stopped_by), "%s",
                   atoll_link_text(line, "stopped_by", "?"));
    return story;
}

/* Whether the bomb was not stopped as expected. */
static bool got_through(const struct bomb *bomb, const struct story *story)
{
    bool capped = strcmp(story->stopped_by, "cap") == 0;

    switch (bomb->judgement) {
    case STOPPED:
        return capped || (bomb->most > 0 && story->reached > bomb->most);
    case HELD:
        return story->bytes > MEMORY_MIB * MIB;
    case CHARGED:
        return capped;
    case SURVIVES:
        return !capped;
    case REAPED:
        return !capped || story->zombies > 0;
    case THROTTLED:
        break;
    }
    return false;
}

static void judge(const struct atoll_verify *v, const struct atoll_tier *tier,
                  const struct bomb *bomb, const json_t *reply)
{
    const struct atoll_check *check = &atoll_bomb_checks[bomb - bombs];
    const json_t *result = json_object_get(reply, "result");
    const char *kind = atoll_link_text(result, "kind", "?");
    struct story story = read_story(atoll_link_text(reply, "stdout", ""));

    if (story.told)
        atoll_tier_add(v, tier, check,
                       got_through(bomb, &story) ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_HOLDS,
                       "it came to %ld, stopped by %s%s%s", story.reached, story.stopped_by,
                       story.zombies ? ", and left zombies" : "",
                       bomb->judgement == HELD && got_through(bomb, &story)
                           ? ", with more in sockets than the memory limit"
                           : "");
    else if (strcmp(kind, "timed_out") == 0)
        atoll_tier_add(v, tier, check, ATOLL_VERDICT_UNKNOWN, "it took too long");
    else if (bomb->judgement == CHARGED || bomb->judgement == HELD)
        atoll_tier_add(v, tier, check, ATOLL_VERDICT_HOLDS, "it was ended: %s %s", kind,
                       atoll_link_text(result, "reason", ""));
    else
        atoll_tier_add(v, tier, check, ATOLL_VERDICT_FOUND, "it was ended itself: %s %s", kind,
                       atoll_link_text(result, "reason", ""));
}

/* Makes the sandbox for bombs, unless there is one that is still usable. */
static int need_box(const struct atoll_verify *v, const struct atoll_tier *tier,
                    struct atoll_box *box, double cpus, struct atoll_error *err)
{
    bool gvisor = strcmp(tier->isolation, "gvisor") == 0;
    const struct atoll_box_options options = {.provider = tier->provider,
                                              .memory_mib = gvisor ? GVISOR_MEMORY_MIB : MEMORY_MIB,
                                              .disk_mib = DISK_MIB,
                                              .inodes = INODES,
                                              .pids = PIDS,
                                              .cpus = cpus};
    int r = *box->id ? 0 : atoll_box_create(box, v->client, &options, err);

    if (r == 0 && !json_object_get(box->view, "holds_probe")) {
        r = atoll_box_put(box, v->probe, ATOLL_PROBE_INSIDE, err);
        if (r == 0)
            (void)json_object_set_new(box->view, "holds_probe", json_true());
    }
    return r;
}

static int explode(const struct atoll_verify *v, const struct atoll_tier *tier,
                   const struct bomb *bomb, struct atoll_box *box, struct atoll_error *err)
{
    char bound[24];
    const char *const argv[] = {ATOLL_PROBE_INSIDE, "--bomb", bomb->name, bound, NULL};
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r;

    (void)snprintf(bound, sizeof(bound), "%ld", bomb->bound);
    r = atoll_box_exec(box, tier->kind.user, argv, NULL, RUN_SECONDS, &reply, err);
    if (r < 0)
        return r;
    judge(v, tier, bomb, reply);
    if (strcmp(atoll_link_text(json_object_get(reply, "result"), "kind", "?"), "exited") != 0)
        atoll_box_done(box); /* the bomb may have ended the sandbox */
    return 0;
}

/* CPU time of the sandbox, from its cgroup. */
static int cpu_seconds(const struct atoll_box *box, double *ret, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/stats", box->id);

    if (r == 0)
        r = atoll_link_call(box->client, "GET", target.text, NULL, &reply, err);
    if (r == 0)
        *ret = atoll_link_number(json_object_get(reply, "cpu"), "used_seconds", 0);
    return r;
}

static int watch_cpu(const struct atoll_verify *v, const struct atoll_tier *tier,
                     const struct bomb *bomb, const struct atoll_box *box, struct atoll_error *err)
{
    const char *const argv[] = {ATOLL_PROBE_INSIDE, "--bomb", "spin", "0", NULL};
    double before = 0, after = 0, share;
    int64_t begun;
    int r = atoll_box_detach(box, tier->kind.user, argv, NULL, err);

    if (r == 0)
        r = cpu_seconds(box, &before, err);
    begun = atoll_clock_us();
    if (r < 0)
        return r;
    (void)poll(NULL, 0, CPU_WATCH_MS);
    r = cpu_seconds(box, &after, err);
    share = (after - before) * 1e6 / (double)(atoll_clock_us() - begun);
    if (r == 0)
        atoll_tier_add(v, tier, &atoll_bomb_checks[bomb - bombs],
                       share > CPU_MOST ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_HOLDS,
                       "four busy processes got %.2f CPUs of %.1f", share, CPUS);
    return r;
}

static int run_one(const struct atoll_verify *v, const struct atoll_tier *tier,
                   const struct bomb *bomb, struct atoll_box *box, struct atoll_error *err)
{
    const struct atoll_check *check = &atoll_bomb_checks[bomb - bombs];
    bool throttled = bomb->judgement == THROTTLED;
    int r;

    if (bomb->spoils)
        atoll_box_done(box);
    r = need_box(v, tier, box, throttled ? CPUS : 0, err);
    if (r == 0 && *bomb->limit && atoll_box_waives(box, bomb->limit)) {
        atoll_report_add(v->report, tier->name, check, ATOLL_VERDICT_NOT_OFFERED,
                         "this host cannot enforce the limit on %s; such a sandbox is made only "
                         "for who waives it, and says so",
                         bomb->limit);
        return 0;
    }
    if (r == 0)
        r = throttled ? watch_cpu(v, tier, bomb, box, err) : explode(v, tier, bomb, box, err);
    if (bomb->spoils || r < 0)
        atoll_box_done(box);
    return r;
}

int atoll_bombs_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                    struct atoll_error *err)
{
    struct atoll_box box = {0};
    bool root = strcmp(tier->kind.user, "root") == 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bombs); i++) {
        int r;
        if (!atoll_verify_wants(v, &atoll_bomb_checks[i]) || (root && !bombs[i].by_root))
            continue;
        r = run_one(v, tier, &bombs[i], &box, err);
        if (r < 0)
            atoll_report_trouble(v->report, "%s: %s: %s", tier->name, atoll_bomb_checks[i].id,
                                 err->text);
        if (r < 0 && err->kind == ATOLL_ERR_UNAVAILABLE) {
            atoll_box_done(&box);
            return r;
        }
    }
    atoll_box_done(&box);
    return 0;
}

/* Outside. */

/* Makes this process a subreaper that does not reap: orphans of the bomb stay zombies. */
static int adopt_orphans(void *arg)
{
    pid_t bomb;
    int status;

    (void)arg;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return -1;
    bomb = fork();
    if (bomb == 0)
        return 0;
    if (bomb < 0 || waitpid(bomb, &status, 0) != bomb)
        _exit(1);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int lead_session(void *arg)
{
    (void)arg;
    return setsid() < 0 ? -1 : 0;
}

static int run_outside(const struct atoll_verify *v, const struct bomb *bomb, const char *directory,
                       char **ret_output, struct atoll_error *err)
{
    static char role[] = "--bomb";
    char bound[24];
    char *argv[] = {(char *)v->probe, role, (char *)bomb->name, bound, NULL};
    const struct atoll_child_options options = {
        .argv = argv,
        .cwd = directory,
        .prepare = bomb->judgement == REAPED ? adopt_orphans : lead_session};
    struct atoll_child child;
    int r;

    (void)snprintf(bound, sizeof(bound), "%ld", bomb->outside);
    r = atoll_child_start(&child, &options, err);
    return r < 0 ? r : atoll_child_collect(&child, 65536, CONTROL_MS, ret_output, err);
}

static void control_one(const struct atoll_verify *v, const struct bomb *bomb,
                        const char *directory)
{
    const struct atoll_check *check = &atoll_bomb_checks[bomb - bombs];
    ATOLL_AUTOFREE char *output = NULL;
    struct atoll_error err;
    struct story story;
    int r = run_outside(v, bomb, directory, &output, &err);

    if (r < 0) {
        atoll_report_add(v->report, ATOLL_TIER_CONTROL, check, ATOLL_VERDICT_UNKNOWN, "%s",
                         err.text);
        return;
    }
    story = read_story(output);
    atoll_report_add(v->report, ATOLL_TIER_CONTROL, check,
                     story.told && got_through(bomb, &story) ? ATOLL_VERDICT_FOUND
                                                             : ATOLL_VERDICT_HOLDS,
                     "outside it came to %ld, stopped by %s", story.reached, story.stopped_by);
}

/* Runs two busy processes outside a sandbox for a short time. */
static void control_cpu(const struct atoll_verify *v, const struct atoll_check *check)
{
    pid_t pids[2];
    struct rusage used = {0};
    int64_t begun = atoll_clock_us();
    double share = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pids); i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (atoll_clock_us() - begun < 400000)
                ;
            _exit(0);
        }
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pids); i++)
        if (pids[i] > 0 && wait4(pids[i], NULL, 0, &used) == pids[i])
            share += (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec / 1e6 +
                     (double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec / 1e6;
    share /= (double)(atoll_clock_us() - begun) / 1e6;
    atoll_report_add(v->report, ATOLL_TIER_CONTROL, check,
                     share > CPU_MOST ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_HOLDS,
                     "outside, two busy processes got %.2f CPUs", share);
}

void atoll_bombs_control(const struct atoll_verify *v)
{
    char directory[300];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bombs); i++) {
        if (!atoll_verify_wants(v, &atoll_bomb_checks[i]))
            continue;
        if (bombs[i].judgement == THROTTLED) {
            control_cpu(v, &atoll_bomb_checks[i]);
            continue;
        }
        (void)snprintf(directory, sizeof(directory), "%.250s/bomb", v->scratch);
        if (mkdir(directory, 0700) == 0)
            control_one(v, &bombs[i], directory);
        (void)!atoll_tree_remove(AT_FDCWD, directory);
    }
}
