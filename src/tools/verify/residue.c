#include "tools/verify/residue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include "tools/verify/probe_run.h"
#include "tools/verify/report.h"
#include "tools/verify/seen.h"

#define TREE_FDS 32
#define LEFT                                                                                        \
    "`atoll doctor` and the daemon's log may say what could not be removed; restart atolld, which " \
    "sweeps what an earlier one left, and report it as SECURITY.md says"
#define SHARED                                                                                \
    "sandboxes share a writable directory: look at the template or image and at `mounts` in " \
    "providers.yaml"

enum { WRITES, BOOT_ID, FILES, HOST, PROCESSES };

const struct atoll_check atoll_residue_checks[] = {
    [WRITES] = {"fs.writes_inside", "5", "what root inside writes stays inside", SHARED},
    [BOOT_ID] = {"proc.boot_id", "D29", "no two sandboxes have one boot_id", SHARED},
    [FILES] = {"residue.files", "D29", "the next sandbox finds no file of the last", SHARED},
    [HOST] = {"residue.host", "D26", "no cgroup, mount or process outlives a sandbox", LEFT},
    [PROCESSES] = {"residue.stubborn", "88", "daemons deaf to signals end with the sandbox", LEFT},
};
const size_t atoll_residue_checks_count = ATOLL_ARRAY_LEN(atoll_residue_checks);

static const char *const directories[] = {"/tmp",     "/var/tmp", "/dev/shm", "/home/user",
                                          "/usr/bin", "/etc",     "/var"};

static bool has_file(const struct atoll_box *box, const char *path)
{
    struct atoll_client_file *file = NULL;
    bool there = atoll_client_file_stat(box->client, box->id, "root", path, &file, NULL) == 0;

    atoll_client_file_free(file);
    return there;
}

/* Writes the marker to all directories where root inside may; `out` lists them, separated by blanks. */
static void leave_marks(const struct atoll_box *box, const char *marker, char *out, size_t cap)
{
    char path[128];
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(directories); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", directories[i], marker);
        if (atoll_client_file_write(box->client, box->id, "root", path, 0644, "x", 1, NULL) == 0 &&
            len < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? " " : "", directories[i]);
    }
}

/* Lists the directories that contain the marker, separated by blanks: in a sandbox, or on the host if box
 * is NULL. */
static void find_marks(const struct atoll_box *box, const char *marker, char *out, size_t cap)
{
    char path[128];
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(directories); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", directories[i], marker);
        if ((box ? has_file(box, path) : access(path, F_OK) == 0) && len < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? " " : "", directories[i]);
    }
}

static void add(const struct atoll_verify *v, const struct atoll_tier *tier, size_t i,
                const char *found, const char *otherwise)
{
    const struct atoll_check *check = &atoll_residue_checks[i];

    if (!atoll_verify_wants(v, check))
        return;
    atoll_tier_add(v, tier, check, *found ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_HOLDS, "%s",
                   *found ? found : otherwise);
}

/* The control: the same search must find the mark where it was made. */
static void add_control(const struct atoll_verify *v, size_t i, bool seen, const char *evidence)
{
    if (atoll_verify_wants(v, &atoll_residue_checks[i]))
        atoll_report_add(v->report, ATOLL_TIER_CONTROL, &atoll_residue_checks[i],
                         seen ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_UNKNOWN, "%s", evidence);
}

static void judge_writes(const struct atoll_verify *v, const struct atoll_tier *tier,
                         const struct atoll_box *box, const struct atoll_box *neighbour,
                         const char *marker)
{
    char found[256], there[200];

    find_marks(box, marker, found, sizeof(found));
    add_control(v, WRITES, *found, "the file is seen in the sandbox that wrote it");
    add_control(v, FILES, *found, "the file is seen while its sandbox lives");
    find_marks(NULL, marker, there, sizeof(there));
    (void)snprintf(found, sizeof(found), "%s%s", *there ? "on the host: " : "", there);
    if (!*there) {
        find_marks(neighbour, marker, there, sizeof(there));
        (void)snprintf(found, sizeof(found), "%s%s", *there ? "in the neighbour: " : "", there);
    }
    add(v, tier, WRITES, found, "not visible on the host or in another sandbox");
}

static void read_boot_id(const struct atoll_box *box, char *out, size_t cap)
{
    void *bytes = NULL;
    size_t n = 0;

    out[0] = '\0';
    if (atoll_client_file_read(box->client, box->id, NULL, "/proc/sys/kernel/random/boot_id",
                               &bytes, &n, NULL) == 0)
        (void)snprintf(out, cap, "%.*s", (int)strcspn(bytes, "\n"), (const char *)bytes);
    atoll_client_release(bytes);
}

static void judge_boot_id(const struct atoll_verify *v, const struct atoll_tier *tier,
                          const struct atoll_box *box, const struct atoll_box *neighbour)
{
    char host[64] = "", first[64], second[64];
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f && !fgets(host, sizeof(host), f))
        host[0] = '\0';
    if (f)
        (void)fclose(f);
    host[strcspn(host, "\n")] = '\0';
    read_boot_id(box, first, sizeof(first));
    read_boot_id(neighbour, second, sizeof(second));
    add_control(v, BOOT_ID, *host, "the host has one that all its users can read");
    if (!*first || !*second) {
        if (atoll_verify_wants(v, &atoll_residue_checks[BOOT_ID]))
            atoll_tier_add(v, tier, &atoll_residue_checks[BOOT_ID], ATOLL_VERDICT_HOLDS,
                           "there is none to read");
        return;
    }
    add(v, tier, BOOT_ID,
        strcmp(first, host) == 0 || strcmp(second, host) == 0 ? "it is the host's"
        : strcmp(first, second) == 0                          ? "two sandboxes have the same"
                                                              : "",
        "each has its own");
}

/* Traces of an id on the host. */
static const char *wanted_name;
static char found_name[256];

static int look_at_cgroup(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    if (type != FTW_D || !strstr(path + at->base, wanted_name))
        return 0;
    (void)snprintf(found_name, sizeof(found_name), "cgroup %.200s", path);
    return 1;
}

static bool mount_of(const char *id, char *out, size_t cap)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[4096];
    bool found = false;

    while (f && !found && fgets(line, sizeof(line), f))
        found = strstr(line, id) != NULL;
    if (f)
        (void)fclose(f);
    if (found)
        (void)snprintf(out, cap, "mount %.200s", line);
    return found;
}

static void find_traces(const char *id, char *out, size_t cap)
{
    pid_t pid;

    out[0] = '\0';
    wanted_name = id;
    if (atoll_seen_count(id, &pid) > 0)
        (void)snprintf(out, cap, "process %d", (int)pid);
    else if (nftw("/sys/fs/cgroup", look_at_cgroup, TREE_FDS, FTW_PHYS) == 1)
        (void)snprintf(out, cap, "%s", found_name);
    else
        (void)mount_of(id, out, cap);
}

static int start_stubborn(const struct atoll_box *box, const char *user, const char *marker,
                          struct atoll_error *err)
{
    const char *const argv[] = {ATOLL_PROBE_INSIDE, "--bomb", "stubborn", "0", marker, NULL};
    return atoll_box_detach(box, user, argv, NULL, err);
}

/* Traces that were not visible while the sandbox ran prove nothing when they are absent. */
static void judge_destroyed(const struct atoll_verify *v, const struct atoll_tier *tier,
                            const char *id, const char *marker, bool had_traces, bool had_processes)
{
    const bool seen[] = {[HOST] = had_traces, [PROCESSES] = had_processes};
    char left[300];
    size_t n = atoll_seen_count(marker, NULL);

    for (size_t i = HOST; i <= PROCESSES; i++)
        if (!seen[i] && atoll_verify_wants(v, &atoll_residue_checks[i]))
            atoll_tier_add(v, tier, &atoll_residue_checks[i], ATOLL_VERDICT_UNKNOWN,
                           "nothing of it is visible here, even while it lives");
    find_traces(id, left, sizeof(left));
    if (had_traces)
        add(v, tier, HOST, left, "nothing names it");
    (void)snprintf(left, sizeof(left), "%zu processes are still there", n);
    if (had_processes)
        add(v, tier, PROCESSES, n ? left : "", "all are gone when destroy answers");
}

/* Marks a first sandbox and destroys it, then creates a second one. */
int atoll_residue_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                      const struct atoll_box *neighbour, struct atoll_error *err)
{
    const struct atoll_box_options options = {.provider = tier->provider};
    char marker[ATOLL_SEEN_MARK_MAX], id[64], text[300];
    struct atoll_box box = {0};
    bool had_traces = false, had_processes = false;
    int r;

    if (!atoll_tier_wants(v, atoll_residue_checks, atoll_residue_checks_count))
        return 0;
    atoll_seen_mark(marker);
    r = atoll_box_create(&box, v->client, &options, err);
    if (r == 0)
        r = atoll_box_put(&box, v->probe, ATOLL_PROBE_INSIDE, err);
    if (r == 0)
        r = start_stubborn(&box, tier->kind.user, marker, err);
    if (r == 0) {
        leave_marks(&box, marker, text, sizeof(text));
        judge_writes(v, tier, &box, neighbour, marker);
        judge_boot_id(v, tier, &box, neighbour);
        had_processes = atoll_seen_wait(marker, 3, 3000) > 0;
        add_control(v, PROCESSES, had_processes, "seen while it lives");
        find_traces(box.id, text, sizeof(text));
        had_traces = *text;
        add_control(v, HOST, had_traces, text);
        (void)snprintf(id, sizeof(id), "%s", box.id);
        r = atoll_box_destroy(&box, err);
    }
    if (r == 0)
        judge_destroyed(v, tier, id, marker, had_traces, had_processes);
    atoll_box_done(&box);
    if (r == 0)
        r = atoll_box_create(&box, v->client, &options, err);
    if (r == 0) {
        find_marks(&box, marker, text, sizeof(text));
        add(v, tier, FILES, text, "no mark of the last one");
        atoll_box_done(&box);
    }
    return r;
}
