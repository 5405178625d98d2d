/*
 * Races and special files: directories that turn into links between two system calls of the daemon, and
 * files that are not regular.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include "base/clock.h"
#include "tools/verify/attacks/attacks_internal.h"

#define RACE_MS 6000   /* at most */
#define RACE_TRIES 400 /* at least; each kind of answer must be at least a tenth of them */
#define CONTROL_MS 5000
#define SOME_BYTES ((size_t)64 * 1024)
#define MEMORY_KIB (64 * 1024)

/* D2. */

struct race {
    unsigned tries, ok, refused;
};

static void race_once(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *user,
                      struct race *race)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    struct atoll_link_target target;
    struct atoll_error err;
    struct atoll_ask ask = {.method = "GET", .target = target.text};
    bool writes = race->tries % 4 == 3;
    int status;

    if (writes) {
        ask.method = "PUT";
        ask.body = "overwritten";
        ask.size = 11;
    }
    if (atoll_link_target(&target, &err, "/api/sandboxes/%s/files?path=race/here/canary&user=%s",
                          raid->box, user) < 0)
        return;
    status = atoll_raid_ask(raid, &ask, &reply);
    race->tries++;
    race->ok += status == 200;
    race->refused += status >= 400;
    if (atoll_raid_reply_leaks(raid, &reply))
        atoll_outcome_found(o, "try %u gave a file of the host", race->tries);
    if (status == 0 || status == 500)
        atoll_outcome_found(o, "try %u was answered %d", race->tries, status);
}

void atoll_attack_race(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    int64_t end = atoll_clock_ms() + RACE_MS;
    char script[1200], exec_id[ATOLL_RAID_ID_MAX];
    struct race race = {0};

    if (!atoll_raid_arm(raid, o))
        return;
    (void)snprintf(script, sizeof(script),
                   "mkdir -p race/here && echo inside >race/here/canary && "
                   "ln -sfn '%s' race/there && exec " ATOLL_RAID_PROBE
                   " --swap race/here race/there %d",
                   raid->v->scratch, RACE_MS / 1000 + 1);
    if (!atoll_raid_start(raid, raid->box, script, exec_id)) {
        atoll_outcome_unknown(o, "nothing could be started inside");
        return;
    }
    while (o->verdict != ATOLL_VERDICT_FOUND && atoll_clock_ms() < end &&
           (race.tries < RACE_TRIES || race.ok < RACE_TRIES / 10 || race.refused < RACE_TRIES / 10))
        race_once(raid, o, race.tries % 2 ? "root" : "user", &race);
    (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s/files?path=race&recursive=true",
                           raid->box);
    (void)atoll_raid_canaries_sing(raid, o, "a race");
    if (race.ok == 0 || race.refused == 0)
        atoll_outcome_unknown(o, "the race did not run: %u of %u answers were 200", race.ok,
                              race.tries);
    atoll_outcome_note(o,
                       "%u reads and writes while a directory turned into a link and back; %u "
                       "met the directory",
                       race.tries, race.ok);
}

static pid_t start_swapping(const char *a, const char *b)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    (void)alarm(CONTROL_MS / 1000 + 1);
    while (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0)
        continue;
    _exit(0);
}

/* The careless server checks that the path is a directory, and then opens it by name again. */
static bool look_then_read(const struct atoll_raid *raid, const char *dir)
{
    char path[700], text[100];
    struct stat st;
    ssize_t n;

    if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return false;
    (void)snprintf(path, sizeof(path), "%s/canary", dir);
    n = atoll_raid_read_file(path, text, sizeof(text));
    return n > 0 && atoll_raid_leaks(raid, text, (size_t)n);
}

void atoll_control_race(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char here[600], there[600], file[700];
    int64_t end;
    unsigned tries = 0;
    bool fell = false;
    pid_t pid;

    (void)atoll_raid_path(raid, "here", here, sizeof(here));
    (void)atoll_raid_path(raid, "there", there, sizeof(there));
    (void)snprintf(file, sizeof(file), "%s/canary", here);
    if (mkdir(here, 0700) < 0 || atoll_raid_write_file(file, "inside", 6) < 0 ||
        symlink(raid->v->scratch, there) < 0 || (pid = start_swapping(here, there)) < 0) {
        atoll_outcome_unknown(o, "the race could not be set up: %s", strerror(errno));
        return;
    }
    end = atoll_clock_ms() + CONTROL_MS;
    while (!fell && atoll_clock_ms() < end) {
        fell = look_then_read(raid, here);
        tries++;
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    if (fell)
        atoll_outcome_found(o, "a server that looks before it opens lost the race in try %u",
                            tries);
}

/* D5. */

struct download {
    size_t got;
};

static int take_some(void *arg, const void *bytes, size_t n)
{
    struct download *d = arg;

    (void)bytes;
    d->got += n;
    return d->got > SOME_BYTES ? -ECANCELED : 0;
}

/* Reads the beginning of a sparse file of many terabytes. */
static void try_sparse(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct download download = {0};
    const struct atoll_http_transfer transfer = {.write = take_some, .arg = &download};
    int64_t before = atoll_raid_daemon_memory(raid), after;
    struct atoll_link_target target;
    struct atoll_error err;
    char size[64];
    int r;

    if (atoll_raid_sh(raid, raid->box, NULL,
                      "cd special && for s in 8T 1T 64G 1G; do truncate -s $s sparse 2>/dev/null "
                      "&& break; done; stat -c %s sparse",
                      size, sizeof(size)) != 0 ||
        atoll_link_target(&target, &err, "/api/sandboxes/%s/files?path=special/sparse", raid->box) <
            0)
        return;
    r = atoll_link_stream(raid->v->client, "GET", target.text, &transfer, NULL, &err);
    /* An error "too large" is a valid answer, too. */
    if (r >= 0 || err.kind == ATOLL_ERR_UNAVAILABLE || err.kind == ATOLL_ERR_INTERNAL ||
        err.kind == ATOLL_ERR_DEADLINE_EXCEEDED)
        atoll_outcome_found(o, "a download of %.20s sparse bytes did not begin: %.100s", size,
                            r < 0 ? err.text : "it ended at once");
    after = atoll_raid_daemon_memory(raid);
    if (before >= 0 && after > before + MEMORY_KIB)
        atoll_outcome_found(o, "the daemon grew by %lld KiB for a sparse file",
                            (long long)(after - before));
}

void atoll_attack_special_files(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const paths[] = {"special/fifo", "special/link", "special",
                                        "/dev/zero",    "/dev/full",    "/dev/tty",
                                        "/dev/ptmx",    "/dev/random",  "/proc/kmsg"};

    if (!atoll_raid_box(raid, o))
        return;
    if (atoll_raid_sh(raid, raid->box, NULL,
                      "rm -rf special; mkdir special && mkfifo special/fifo && "
                      "ln -s fifo special/link",
                      NULL, 0) != 0)
        atoll_outcome_unknown(o, "no special files could be made inside");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(paths); i++)
        for (int root = 0; root < 2; root++) {
            int64_t start = atoll_clock_ms();
            int status = atoll_raid_callf(raid, "GET", "/api/sandboxes/%s/files?path=%s&user=%s",
                                          raid->box, paths[i], root ? "root" : "user");
            if (status == 0)
                atoll_outcome_found(o, "reading %s was not answered in %lld ms", paths[i],
                                    (long long)(atoll_clock_ms() - start));
            else if (status == 200 || status == 500)
                atoll_outcome_found(o, "reading %s was answered %d", paths[i], status);
        }
    try_sparse(raid, o);
    (void)atoll_raid_sh(raid, raid->box, NULL, "rm -rf special", NULL, 0);
    (void)atoll_raid_alive(raid, o, "special files");
    atoll_outcome_note(o,
                       "a pipe, a link to it, a directory, devices and a sparse file as downloads");
}

static void ignore_alarm(int signo)
{
    (void)signo;
}

/* The careless server opens a pipe and blocks, because it has no writer. */
void atoll_control_special_files(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct sigaction action = {.sa_handler = ignore_alarm}, old;
    char path[600];
    int fd;

    (void)atoll_raid_path(raid, "fifo", path, sizeof(path));
    (void)unlink(path);
    if (mkfifo(path, 0600) < 0 || sigaction(SIGALRM, &action, &old) < 0) {
        atoll_outcome_unknown(o, "mkfifo: %s", strerror(errno));
        return;
    }
    const struct itimerspec soon = {.it_value = {.tv_nsec = 200L * 1000 * 1000},
                                    .it_interval = {.tv_nsec = 200L * 1000 * 1000}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0) {
        (void)timer_settime(timer, 0, &soon, NULL);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == EINTR)
            atoll_outcome_found(o, "a plain open() of a pipe hung until a timer broke it off");
        if (fd >= 0)
            (void)close(fd);
        (void)timer_delete(timer);
    }
    (void)sigaction(SIGALRM, &old, NULL);
}
