#include "tools/verify/forks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tools/verify/box.h"
#include "tools/verify/probe_run.h"
#include "tools/verify/report.h"
#include "tools/verify/seen.h"

#define MEMORY_MIB 64
#define DISK_MIB 128
#define RUN_S 60
#define STATE                                                                                    \
    "files of one sandbox reach another one through a snapshot: report it as SECURITY.md says, " \
    "with the kind of disk that `atoll doctor` names"

enum { WRITES, PROCESSES, ENVIRONMENT, BLOCKS, LIMIT };

const struct atoll_check atoll_fork_checks[] = {
    [WRITES] = {"fork.later_writes", "D29", "a fork finds nothing that others write after it",
                STATE},
    [PROCESSES] = {"fork.processes", "D29", "no process or memory of a sandbox is in its forks",
                   STATE},
    [ENVIRONMENT] = {"fork.environment", "D29",
                     "a snapshot has no value of the environment of its sandbox", STATE},
    [BLOCKS] = {"fork.freed_blocks", "D29", "what others have freed on the disk reads as zeros",
                STATE},
    [LIMIT] = {"fork.disk_limit", "79", "a fork has a limit of its own on its disk", STATE},
};
const size_t atoll_fork_checks_count = ATOLL_ARRAY_LEN(atoll_fork_checks);

struct family {
    struct atoll_box parent, fork, sibling, child; /* child: from a snapshot of the parent */
    char mark[ATOLL_SEEN_MARK_MAX];
    char pattern[ATOLL_SEEN_MARK_MAX + 2]; /* matches the mark, and is another text */
    char snapshot[ATOLL_SEEN_MARK_MAX];    /* its name, or "" */
};

/* Runs a script; whether it prints anything. */
static int says(const struct atoll_box *box, const char *user, const char *script, bool *ret,
                struct atoll_error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    ATOLL_AUTOJSON json_t *answer = NULL;
    int r = atoll_box_exec(box, user, argv, NULL, RUN_S, &answer, err);

    if (r == 0)
        *ret = *atoll_link_text(answer, "stdout", "") != '\0';
    return r;
}

static int run(const struct atoll_box *box, const char *user, const char *script,
               struct atoll_error *err)
{
    bool ignored;
    return says(box, user, script, &ignored, err);
}

/* The control: the same search must find the thing where it is. */
static void judge(const struct atoll_verify *v, const struct atoll_tier *tier, size_t i, bool seen,
                  bool found, const char *where)
{
    const struct atoll_check *check = &atoll_fork_checks[i];

    if (!atoll_verify_wants(v, check))
        return;
    atoll_report_add(v->report, ATOLL_TIER_CONTROL, check,
                     seen ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_UNKNOWN, "%s",
                     seen ? "the same search finds it where it is" : "it is not found anywhere");
    atoll_tier_add(v, tier, check, found ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_HOLDS, "%s%s",
                   found ? "it is in " : "it is not in ", where);
}

static int take_fork(struct atoll_box *box, struct atoll_client *client, const json_t *view,
                     struct atoll_error *err)
{
    *box = (struct atoll_box){.client = client};
    (void)snprintf(box->id, sizeof(box->id), "%s", atoll_link_text(view, "id", ""));
    return *box->id ? 0 : atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "a fork without an id");
}

static int make_forks(struct family *f, const struct atoll_verify *v, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *body = json_pack("{s:i}", "count", 2);
    ATOLL_AUTOJSON json_t *answer = NULL;
    char path[128];
    const json_t *made;
    int r;

    (void)snprintf(path, sizeof(path), "/api/sandboxes/%s/fork", f->parent.id);
    r = atoll_link_call(v->client, "POST", path, body, &answer, err);
    made = json_object_get(answer, "sandboxes");
    if (r == 0)
        r = take_fork(&f->fork, v->client, json_array_get(made, 0), err);
    return r < 0 ? r : take_fork(&f->sibling, v->client, json_array_get(made, 1), err);
}

static int make_child(struct family *f, const struct atoll_verify *v, const struct atoll_tier *tier,
                      struct atoll_error *err)
{
    const struct atoll_box_options options = {.provider = tier->provider,
                                              .memory_mib = MEMORY_MIB,
                                              .disk_mib = DISK_MIB,
                                              .template_name = f->mark};
    ATOLL_AUTOJSON json_t *body = json_pack("{s:s}", "name", f->mark);
    char path[128];
    int r;

    (void)snprintf(path, sizeof(path), "/api/sandboxes/%s/snapshots", f->parent.id);
    r = atoll_link_call(v->client, "POST", path, body, NULL, err);
    if (r == 0)
        (void)snprintf(f->snapshot, sizeof(f->snapshot), "%s", f->mark);
    return r < 0 ? r : atoll_box_create(&f->child, v->client, &options, err);
}

static int make_parent(struct family *f, const struct atoll_verify *v,
                       const struct atoll_tier *tier, struct atoll_error *err)
{
    const struct atoll_box_options options = {.provider = tier->provider,
                                              .memory_mib = MEMORY_MIB,
                                              .disk_mib = DISK_MIB,
                                              .secret = f->mark};
    const char *const wait[] = {"/bin/sh", "-c", "while :; do sleep 1; done", f->mark, NULL};
    size_t last = strlen(f->mark) - 1;

    (void)snprintf(f->pattern, sizeof(f->pattern), "%.*s[%c]", (int)last, f->mark, f->mark[last]);
    int r = atoll_box_create(&f->parent, v->client, &options, err);

    if (r == 0)
        r = run(&f->parent, tier->kind.user, "echo before > ~/before", err);
    return r < 0 ? r : atoll_box_detach(&f->parent, tier->kind.user, wait, NULL, err);
}

static int check_writes(const struct family *f, const struct atoll_verify *v,
                        const struct atoll_tier *tier, struct atoll_error *err)
{
    const char *user = tier->kind.user, *script = "cat ~/later* 2>/dev/null";
    bool seen = false, in_fork = false, in_parent = false, has_files = false;
    int r = run(&f->fork, user, "echo x > ~/later-fork", err);

    if (r == 0)
        r = says(&f->fork, user, script, &seen, err);
    if (r == 0)
        r = says(&f->parent, user, script, &in_parent, err);
    if (r == 0)
        r = run(&f->parent, user, "echo x > ~/later-parent", err);
    if (r == 0)
        r = says(&f->sibling, user, script, &in_fork, err);
    if (r == 0)
        r = says(&f->sibling, user, "cat ~/before 2>/dev/null", &has_files, err);
    if (r == 0)
        judge(v, tier, WRITES, seen && has_files, in_fork || in_parent,
              "another fork or the parent");
    return r;
}

static int check_processes(const struct family *f, const struct atoll_verify *v,
                           const struct atoll_tier *tier, struct atoll_error *err)
{
    char script[200];
    bool seen = false, found = false;
    int r;

    (void)snprintf(script, sizeof(script), "grep -las '%s' /proc/[0-9]*/cmdline", f->pattern);
    r = says(&f->parent, tier->kind.user, script, &seen, err);
    if (r == 0)
        r = says(&f->fork, tier->kind.user, script, &found, err);
    if (r == 0)
        judge(v, tier, PROCESSES, seen, found, "a fork");
    return r;
}

static int check_environment(const struct family *f, const struct atoll_verify *v,
                             const struct atoll_tier *tier, struct atoll_error *err)
{
    char script[300];
    bool seen = false, found = false;
    int r;

    (void)snprintf(script, sizeof(script),
                   "grep -las '%s' /proc/[0-9]*/environ; "
                   "grep -rlas --exclude-dir=proc --exclude-dir=usr --exclude-dir=dev '%s' /",
                   f->pattern, f->pattern);
    r = says(&f->parent, tier->kind.user, script, &seen, err);
    if (r == 0)
        r = says(&f->child, tier->kind.user, script, &found, err);
    if (r == 0)
        judge(v, tier, ENVIRONMENT, seen, found, "a sandbox of its snapshot");
    return r;
}

/* The fork writes a pattern to much of its disk, removes it and ends; its sibling reads what it is given. */
static int check_blocks(struct family *f, const struct atoll_verify *v,
                        const struct atoll_tier *tier, struct atoll_error *err)
{
    const char *user = tier->kind.user;
    char script[300];
    bool seen = false, found = false;
    int r;

    (void)snprintf(script, sizeof(script),
                   "yes '%s' | head -c 48M > ~/full; sync ~/full; grep -las '%s' ~/full", f->mark,
                   f->pattern);
    r = says(&f->fork, user, script, &seen, err);
    if (r == 0)
        r = run(&f->fork, user, "rm ~/full; sync", err);
    if (r == 0)
        r = atoll_box_destroy(&f->fork, err);
    (void)snprintf(script, sizeof(script),
                   "fallocate -l 64M ~/given || truncate -s 64M ~/given; grep -las '%s' ~/given; "
                   "rm ~/given",
                   f->pattern);
    if (r == 0)
        r = says(&f->sibling, user, script, &found, err);
    if (r == 0)
        judge(v, tier, BLOCKS, seen, found, "blocks that the file system gives out");
    return r;
}

static int check_limit(const struct family *f, const struct atoll_verify *v,
                       const struct atoll_tier *tier, struct atoll_error *err)
{
    bool some = false, all = false;
    int r =
        says(&f->sibling, tier->kind.user,
             "head -c 8M /dev/zero > ~/some && sync ~/some && echo yes; rm -f ~/some", &some, err);

    if (r == 0)
        r = says(
            &f->sibling, tier->kind.user,
            "head -c 256M /dev/zero > ~/all 2>/dev/null && sync ~/all && echo yes; rm -f ~/all",
            &all, err);
    if (r == 0)
        judge(v, tier, LIMIT, some, all, "the disk of a fork: 256 MiB on one of 128 MiB");
    return r;
}

static int check_all(struct family *f, const struct atoll_verify *v, const struct atoll_tier *tier,
                     struct atoll_error *err)
{
    int r = check_writes(f, v, tier, err);

    if (r == 0)
        r = check_processes(f, v, tier, err);
    if (r == 0)
        r = check_environment(f, v, tier, err);
    if (r == 0)
        r = check_blocks(f, v, tier, err);
    return r < 0 ? r : check_limit(f, v, tier, err);
}

static void not_offered(const struct atoll_verify *v, const struct atoll_tier *tier,
                        const char *why)
{
    for (size_t i = 0; i < atoll_fork_checks_count; i++)
        if (atoll_verify_wants(v, &atoll_fork_checks[i]))
            atoll_report_add(v->report, tier->name, &atoll_fork_checks[i],
                             ATOLL_VERDICT_NOT_OFFERED, "there are no forks here: %s", why);
}

static void end(struct family *f, const struct atoll_verify *v)
{
    struct atoll_error ignored;
    char path[128];

    atoll_box_done(&f->child);
    atoll_box_done(&f->fork);
    atoll_box_done(&f->sibling);
    atoll_box_done(&f->parent);
    (void)snprintf(path, sizeof(path), "/api/snapshots/%s", f->snapshot);
    if (*f->snapshot)
        (void)!atoll_link_call(v->client, "DELETE", path, NULL, NULL, &ignored);
}

static bool is_refusal(const struct atoll_error *err)
{
    return err->kind == ATOLL_ERR_UNIMPLEMENTED || err->kind == ATOLL_ERR_FAILED_PRECONDITION;
}

int atoll_forks_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                    struct atoll_error *err)
{
    struct family f = {.snapshot = ""};
    int r;

    if (!atoll_tier_wants(v, atoll_fork_checks, atoll_fork_checks_count))
        return 0;
    atoll_seen_mark(f.mark);
    r = make_parent(&f, v, tier, err);
    if (r == 0) {
        r = make_forks(&f, v, err);
        if (r == 0)
            r = make_child(&f, v, tier, err);
        if (r < 0 && is_refusal(err)) {
            not_offered(v, tier, err->text);
            r = 0;
        } else if (r == 0) {
            r = check_all(&f, v, tier, err);
        }
    }
    end(&f, v);
    return r;
}
