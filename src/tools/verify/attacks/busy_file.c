/*
 * An upload that stays open while processes of the sandbox write to its file without pause. The
 * kernel lets one of them write at a time, so a daemon that writes there on its only thread for
 * requests delays every tenant (docs/adr/0015).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "tools/verify/attacks/attacks_internal.h"
#include "tools/verify/child.h"

#define WRITERS 64
#define WRITERS_TEXT "64"
#define SECONDS_TEXT "5" /* the writers end by themselves */
#define START_MS 5000
#define WATCH_MS 1500
#define PAUSE_MS 20
#define SLOW_MS 5000
#define SLOW_TURN "0.5" /* seconds: the upper bound of a bucket of atoll_loop_turn_seconds */
#define PIECE_BYTES 65536
#define CONTROL_MS 3000 /* for how long it tries: less than the writers write */
#define CONTROL_US 5000 /* far above a write that does not wait: tens of microseconds */

static const char piece[PIECE_BYTES];

/* D33. */

/* The number of turns of the daemon's loop that took longer than SLOW_TURN; -1 if unknown. */
static long slow_turns(struct atoll_raid *raid)
{
    static const char in_time[] = "\natoll_loop_turn_seconds_bucket{le=\"" SLOW_TURN "\"} ";
    static const char all[] = "\natoll_loop_turn_seconds_count ";
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    const struct atoll_ask ask = {.method = "GET", .target = "/metrics"};
    const char *a, *b;

    if (atoll_raid_ask(raid, &ask, &reply) != 200)
        return -1;
    a = strstr(atoll_buf_str(&reply.body), all);
    b = strstr(atoll_buf_str(&reply.body), in_time);
    return a && b ? strtol(a + strlen(all), NULL, 10) - strtol(b + strlen(in_time), NULL, 10) : -1;
}

/* Begins an upload that has no end. */
static int open_upload(const struct atoll_raid *raid, const char *box)
{
    char head[1000], credentials[600];
    int fd = atoll_raid_connect(raid, false);

    if (fd < 0)
        return fd;
    (void)snprintf(head, sizeof(head),
                   "PUT /api/sandboxes/%s/files?path=/home/user/held HTTP/1.1\r\n"
                   "Host: localhost\r\n%sContent-Length: 1000000000000\r\n\r\n",
                   box, atoll_raid_credentials(raid, credentials, sizeof(credentials)));
    (void)send(fd, head, strlen(head), MSG_NOSIGNAL);
    (void)send(fd, piece, sizeof(piece), MSG_NOSIGNAL);
    return fd;
}

static bool start_writers(struct atoll_raid *raid, const char *box)
{
    int64_t end = atoll_clock_ms() + START_MS;
    char exec_id[ATOLL_RAID_ID_MAX];

    if (!atoll_raid_start(raid, box,
                          "cd /home/user && exec " ATOLL_RAID_PROBE " --hammer " WRITERS_TEXT
                          " " SECONDS_TEXT " >hammering",
                          exec_id))
        return false;
    while (atoll_raid_sh(raid, box, NULL, "test -s /home/user/hammering", NULL, 0) != 0)
        if (atoll_clock_ms() > end)
            return false;
    return true;
}

/* Feeds the upload while another tenant lists its sandboxes. */
static void watch(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *key, int fd)
{
    const struct atoll_ask ask = {
        .method = "GET", .target = "/api/sandboxes", .key = key, .once = true};
    int64_t end = atoll_clock_ms() + WATCH_MS, longest = 0;
    unsigned lists = 0;

    do {
        ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
        int64_t start = atoll_clock_ms();
        (void)send(fd, piece, sizeof(piece), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (atoll_raid_ask(raid, &ask, &reply) == 0)
            atoll_outcome_found(o, "another tenant's list was not answered");
        longest = ATOLL_MAX(longest, atoll_clock_ms() - start);
        lists++;
        (void)poll(NULL, 0, PAUSE_MS);
    } while (atoll_clock_ms() < end && o->verdict == ATOLL_VERDICT_HOLDS);
    if (longest > SLOW_MS)
        atoll_outcome_found(o, "a list of another tenant took %lld ms", (long long)longest);
    atoll_outcome_note(
        o,
        "%d processes wrote to the file of an upload: another tenant's %u lists took "
        "%lld ms at most, and no turn of the daemon's loop more than " SLOW_TURN " s",
        WRITERS, lists, (long long)longest);
}

void atoll_attack_busy_file(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    const char *key = atoll_raid_key(raid, o, 0);
    char box[ATOLL_RAID_ID_MAX];
    long before = slow_turns(raid), after;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (!key || !atoll_raid_make(raid, o, NULL, NULL, box))
        return;
    if (atoll_raid_put_probe(raid, o, box)) {
        fd = open_upload(raid, box);
        if (fd >= 0 && start_writers(raid, box))
            watch(raid, o, key, fd);
        else
            atoll_outcome_unknown(o, "the upload or the writers did not start");
    }
    after = slow_turns(raid);
    if (before < 0 || after < 0)
        atoll_outcome_unknown(o, "the daemon does not tell how long turns of its loop take");
    else if (after > before)
        atoll_outcome_found(o, "%ld turns of the daemon's loop took more than " SLOW_TURN " s",
                            after - before);
    (void)atoll_raid_drop(raid, box);
}

/* The careless server writes the upload itself. How soon it waits depends on the processors. */
static int64_t longest_write(int fd)
{
    int64_t end = atoll_clock_ms() + CONTROL_MS, longest = 0;

    while (longest <= CONTROL_US && atoll_clock_ms() < end) {
        int64_t start = atoll_clock_us();
        if (pwrite(fd, piece, sizeof(piece), 0) < 0)
            break;
        longest = ATOLL_MAX(longest, atoll_clock_us() - start);
    }
    return longest;
}

void atoll_control_busy_file(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static char role[] = "--hammer", writers[] = WRITERS_TEXT, seconds[] = SECONDS_TEXT;
    char *argv[] = {(char *)raid->v->probe, role, writers, seconds, NULL};
    const struct atoll_child_options options = {.argv = argv, .cwd = raid->v->scratch};
    char path[600];
    struct atoll_child child;
    struct atoll_error err;
    int64_t longest = 0;

    (void)atoll_raid_path(raid, ".atoll-control.tmp", path, sizeof(path));
    ATOLL_AUTOCLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || atoll_child_start(&child, &options, &err) < 0) {
        atoll_outcome_unknown(o, "no writers could be started: %s", strerror(errno));
        return;
    }
    if (atoll_child_expect(&child, "ready", START_MS, &err) == 0)
        longest = longest_write(fd);
    atoll_child_end(&child);
    (void)unlink(path);
    if (longest > CONTROL_US)
        atoll_outcome_found(o, "a careless server waited %lld ms to write 64 KiB",
                            (long long)(longest / 1000));
}
