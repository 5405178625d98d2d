/*
 * Paths that try to leave the sandbox: with dots, encoded twice, through links of procfs, through hard
 * links. The daemon resolves paths inside the sandbox, so none of them may reach the canary; the careless
 * server, which appends them to a directory of the host, reaches it with the first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "tools/verify/attacks/attacks_internal.h"

#define LONG_CLIMB 1500 /* repetitions of "../" */
#define FDS_TRIED 24

/* Ways to write a path of the host (%s). */
static const char *const spellings[] = {
    "%s",
    "/../../../../../..%s",
    "../../../../../../../..%s",
    "/home/user/../../../../..%s",
    "./.././../../../../../..%s",
    "....//....//....//....%s",
    "..\\..\\..\\..\\..%s",
    "%%2e%%2e%%2f%%2e%%2e%%2f%%2e%%2e%s",
    "..%%00/..%s",
    "\xc0\xae\xc0\xae/\xc0\xae\xc0\xae%s",
    "//%s",
    "~/../../../..%s",
    "~root/../..%s",
    "file://%s",
    "/home/user%%00%s",
};

/* Targets that no client of ours would make; %s is the id, then the path. */
static const char *const raw_targets[] = {
    "/api/sandboxes/%s/files?path=%%00%s",
    "/api/sandboxes/%s/files?path=x%%00&path=%s",
    "/api/sandboxes/%s/files?path=..%%2f..%%2f..%%2f..%%2f..%s",
    "/api/sandboxes/%s/files?path=%%252e%%252e%%252f%%252e%%252e%s",
    "/api/sandboxes/%s/files/../../../../../..%s",
    "/api/sandboxes/%s/files/..%%2f..%%2f..%%2f..%%2f..%s",
    "/api/sandboxes/%s/../../../../../..%s",
    "/api/artifacts/%s/../../../../../..%s",
    "/api/artifacts/%s/..%%2f..%%2f..%%2f..%%2f..%s",
    "/api/artifacts/%s/%%2e%%2e/%%2e%%2e/%%2e%%2e/%%2e%%2e%s",
    "/preview/%s/80/../../../../../..%s",
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static const char *spell(const struct atoll_raid *raid, size_t i, char *out, size_t cap)
{
    (void)snprintf(out, cap, spellings[i], raid->canary);
    return out;
}

static void spell_raw(const struct atoll_raid *raid, size_t i, char *out, size_t cap)
{
    (void)snprintf(out, cap, raw_targets[i], raid->box, raid->canary);
}
#pragma GCC diagnostic pop

/* D1. */

static void judge(struct atoll_raid *raid, struct atoll_raid_outcome *o, int status,
                  const struct atoll_http_reply *reply, const char *what, const char *path)
{
    if (atoll_raid_reply_leaks(raid, reply))
        atoll_outcome_found(o, "%s %.80s gave a file of the host", what, path);
    else if (status == 0 || status == 500)
        atoll_outcome_found(o, "%s %.80s was answered %d", what, path, status);
}

static void read_path(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *path,
                      const char *user)
{
    static const char *const ways[] = {"files", "files/stat", "files/list", "archive",
                                       "files/xattrs"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ways); i++) {
        ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
        struct atoll_ask ask = {.method = "GET"};
        struct atoll_link_target target;
        struct atoll_error err;
        char text[8192];
        if (atoll_link_target(&target, &err, "?path=%s&user=%s", path, user) < 0 ||
            (size_t)snprintf(text, sizeof(text), "/api/sandboxes/%s/%s%s", raid->box, ways[i],
                             target.text) >= sizeof(text))
            continue;
        ask.target = text;
        judge(raid, o, atoll_raid_ask(raid, &ask, &reply), &reply, ways[i], path);
    }
}

static void write_path(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *path,
                       const char *user)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    struct atoll_link_target target;
    struct atoll_error err;
    struct atoll_ask ask = {.method = "PUT", .target = target.text, .body = "changed", .size = 7};

    if (atoll_link_target(&target, &err, "/api/sandboxes/%s/files?path=%s&user=%s", raid->box, path,
                          user) < 0)
        return;
    judge(raid, o, atoll_raid_ask(raid, &ask, &reply), &reply, "writing", path);
}

/* Tries to create something in the `drop` directory with every route that creates files. */
static void make_things(struct atoll_raid *raid)
{
    static const char *const users[] = {"user", "root"};
    char path[1100];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(users); i++) {
        (void)snprintf(path, sizeof(path), "../../../../../..%s/made", raid->drop);
        (void)atoll_raid_callf(raid, "POST", "/api/sandboxes/%s/files/mkdir?path=%s&user=%s",
                               raid->box, path, users[i]);
        (void)atoll_raid_callf(raid, "PUT", "/api/sandboxes/%s/files?path=%s&user=%s", raid->box,
                               path, users[i]);
        (void)atoll_raid_callf(raid, "POST",
                               "/api/sandboxes/%s/files/move?path=/etc/hosts&to=%s&user=%s",
                               raid->box, path, users[i]);
        (void)atoll_raid_callf(raid, "POST",
                               "/api/sandboxes/%s/files/symlink?target=x&path=%s&user=%s",
                               raid->box, path, users[i]);
        (void)atoll_raid_callf(raid, "POST", "/api/sandboxes/%s/files/chmod?mode=0&path=%s&user=%s",
                               raid->box, raid->canary, users[i]);
        (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s/files?path=%s&user=%s", raid->box,
                               raid->canary, users[i]);
    }
}

static void try_raw_targets(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char target[1600], request[2600], credentials[600];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(raw_targets); i++) {
        struct atoll_buf answer;
        bool closed;
        int status;
        spell_raw(raid, i, target, sizeof(target));
        (void)snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", target,
                       atoll_raid_credentials(raid, credentials, sizeof(credentials)));
        atoll_buf_init(&answer, 64 * 1024);
        status = atoll_raid_raw(raid, false, request, strlen(request), ATOLL_RAID_WAIT_MS, &answer,
                                &closed);
        if (atoll_raid_leaks(raid, atoll_buf_head(&answer), atoll_buf_size(&answer)))
            atoll_outcome_found(o, "GET %.80s gave a file of the host", target);
        else if (status >= 0 && ((status < 400 && !strchr(target, '?')) || status == 500))
            atoll_outcome_found(o, "GET %.80s was answered %d", target, status);
        atoll_buf_done(&answer);
    }
}

static void try_long_path(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    size_t cap = (size_t)LONG_CLIMB * 3 + sizeof(raid->canary);
    ATOLL_AUTOFREE char *path = malloc(cap);

    if (!path)
        return;
    for (size_t i = 0; i < LONG_CLIMB; i++)
        memcpy(path + 3 * i, "../", 3);
    (void)snprintf(path + (size_t)LONG_CLIMB * 3, cap - (size_t)LONG_CLIMB * 3, "%s",
                   raid->canary + 1);
    read_path(raid, o, path, "root");
}

void atoll_attack_traversal(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char path[1100];

    if (!atoll_raid_box(raid, o))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(spellings); i++) {
        (void)spell(raid, i, path, sizeof(path));
        read_path(raid, o, path, i % 2 ? "root" : "user");
        write_path(raid, o, path, i % 2 ? "user" : "root");
    }
    try_long_path(raid, o);
    try_raw_targets(raid, o);
    make_things(raid);
    (void)atoll_raid_canaries_sing(raid, o, "a path");
    (void)atoll_raid_alive(raid, o, "hostile paths");
    atoll_outcome_note(o, "%zu spellings of a host path and %zu raw targets, read and written",
                       ATOLL_ARRAY_LEN(spellings) + 1, ATOLL_ARRAY_LEN(raw_targets));
}

/* The careless server opens DIRECTORY/PATH with the path that the client sent. */
static bool join_and_read(const struct atoll_raid *raid, const char *path)
{
    char joined[2048], text[256];
    ssize_t n;

    (void)snprintf(joined, sizeof(joined), "%s/naive/%s", raid->v->scratch, path);
    n = atoll_raid_read_file(joined, text, sizeof(text));
    return n > 0 && atoll_raid_leaks(raid, text, (size_t)n);
}

static void make_naive_root(const struct atoll_raid *raid)
{
    char path[600];

    (void)mkdir(atoll_raid_path(raid, "naive", path, sizeof(path)), 0700);
}

void atoll_control_traversal(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char path[1100];
    size_t fell = 0;

    make_naive_root(raid);
    /* Enough levels for the depth of the scratch directory. */
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(spellings); i++)
        fell += join_and_read(raid, spell(raid, i, path, sizeof(path)));
    (void)snprintf(path, sizeof(path), "../canary");
    fell += join_and_read(raid, path);
    if (fell > 0)
        atoll_outcome_found(o, "a path joined to a directory led out %zu times", fell);
}

/* D3. */

static void try_magic(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *path)
{
    read_path(raid, o, path, "root");
    write_path(raid, o, path, "root");
}

static void try_descriptors(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const dirs[] = {"/proc/self/fd", "/dev/fd", "/proc/1/fd"};
    char path[64];

    for (size_t d = 0; d < ATOLL_ARRAY_LEN(dirs); d++)
        for (int fd = 0; fd < FDS_TRIED; fd++) {
            (void)snprintf(path, sizeof(path), "%s/%d", dirs[d], fd);
            int status = atoll_raid_callf(raid, "GET", "/api/sandboxes/%s/files?path=%s&user=root",
                                          raid->box, path);
            if (status == 0 || status == 200 || status >= 500)
                atoll_outcome_found(o, "reading %s was answered %d", path, status);
        }
}

void atoll_attack_magic_links(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const roots[] = {"self/root", "self/cwd/../../../../..", "1/root",
                                        "thread-self/root", "self/task/1/root"};
    char path[1200];

    if (!atoll_raid_box(raid, o))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(roots); i++) {
        (void)snprintf(path, sizeof(path), "/proc/%s%s", roots[i], raid->canary);
        try_magic(raid, o, path);
        /* The same through a link that the tenant made. */
        (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s/files?path=magic", raid->box);
        (void)atoll_raid_callf(raid, "POST", "/api/sandboxes/%s/files/symlink?path=magic&target=%s",
                               raid->box, path);
        try_magic(raid, o, "/home/user/magic");
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/root%s", (int)raid->daemon, raid->canary);
    try_magic(raid, o, path);
    (void)snprintf(path, sizeof(path), "/proc/%d/root%s", (int)getpid(), raid->canary);
    try_magic(raid, o, path);
    try_descriptors(raid, o);
    (void)atoll_raid_canaries_sing(raid, o, "a link of procfs");
    atoll_outcome_note(o,
                       "roots, working directories and descriptors of procfs, also behind links");
}

void atoll_control_magic_links(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char link[600], target[600];

    make_naive_root(raid);
    (void)atoll_raid_path(raid, "naive/magic", link, sizeof(link));
    (void)snprintf(target, sizeof(target), "/proc/self/root%s", raid->canary);
    (void)unlink(link);
    if (symlink(target, link) < 0)
        atoll_outcome_unknown(o, "symlink: %s", strerror(errno));
    else if (join_and_read(raid, "magic"))
        atoll_outcome_found(o, "a reader that follows links read through /proc/self/root");
}

/* D4. */

void atoll_attack_hard_links(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char out[200];
    int status;

    if (!atoll_raid_box(raid, o))
        return;
    if (atoll_raid_sh(raid, raid->box, "root",
                      "cd /home/user && rm -f first second theirs && echo first >first && "
                      "ln first second && chown user: first && echo theirs >/var/tmp/theirs && "
                      "ln /var/tmp/theirs theirs && ls theirs",
                      out, sizeof(out)) != 0) {
        atoll_outcome_unknown(o, "no second name could be made for a file inside");
        return;
    }
    status = atoll_raid_callf(raid, "PUT", "/api/sandboxes/%s/files?path=second", raid->box);
    if (status != 200)
        atoll_outcome_unknown(o, "the file could not be written (%d)", status);
    /* Write to the file and change its owner through its second name. */
    (void)atoll_raid_callf(raid, "PUT", "/api/sandboxes/%s/files?path=theirs", raid->box);
    (void)atoll_raid_callf(raid, "POST", "/api/sandboxes/%s/files/chown?path=theirs&owner=user",
                           raid->box);
    (void)atoll_raid_sh(raid, raid->box, "root",
                        "cat /home/user/first; stat -c %U /var/tmp/theirs; cat /var/tmp/theirs",
                        out, sizeof(out));
    if (strncmp(out, "first\n", 6) != 0)
        atoll_outcome_found(o, "writing one name of a file changed what its other name shows");
    else if (strcmp(out + 6, "root\ntheirs\n") != 0)
        atoll_outcome_found(o, "a file of root was changed through a second name: %.60s", out + 6);
    atoll_outcome_note(o, "files with two names were written and given away by one of them");
}

void atoll_control_hard_links(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char first[600], second[600], text[16];

    make_naive_root(raid);
    (void)atoll_raid_path(raid, "naive/first", first, sizeof(first));
    (void)atoll_raid_path(raid, "naive/second", second, sizeof(second));
    (void)unlink(second);
    if (atoll_raid_write_file(first, "first", 5) < 0 || link(first, second) < 0 ||
        atoll_raid_write_file(second, "other", 5) < 0 ||
        atoll_raid_read_file(first, text, sizeof(text)) < 0)
        atoll_outcome_unknown(o, "the files could not be made: %s", strerror(errno));
    else if (strcmp(text, "first") != 0)
        atoll_outcome_found(o, "a file that is written in place changed under its other name");
}
