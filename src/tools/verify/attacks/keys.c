/*
 * Keys: guessed, missing, and leaked to files and logs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/rand.h"
#include "tools/verify/attacks/attacks_internal.h"

#define GUESSES 300
#define FILES_MAX 5000
#define DEPTH_MAX 4
#define NOBODY 65534

/* D14. */

/* The text of an answer without the parts that differ in every answer (request id, date). */
static void essence(const struct atoll_http_reply *reply, char *out, size_t cap)
{
    ATOLL_AUTOJSON json_t *body =
        atoll_link_parse_json(atoll_buf_head(&reply->body), atoll_buf_size(&reply->body));
    const json_t *error = json_object_get(body, "error");

    (void)snprintf(out, cap, "%d %s %s", reply->status, atoll_link_text(error, "code", ""),
                   atoll_link_text(error, "message", ""));
}

static void ask_with(struct atoll_raid *raid, const char *key, char *out, size_t cap)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    const struct atoll_ask ask = {
        .method = "GET", .target = "/api/sandboxes", .key = key, .once = true};

    (void)atoll_raid_ask(raid, &ask, &reply);
    essence(&reply, out, cap);
}

/* Tries wrong keys with longer and longer common prefixes with a valid key. */
static void compare_refusals(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *key)
{
    static const char *const plain[] = {"x", "atl_", "null", "' or 1=1 --"};
    char first[300] = "", said[300], wrong[80];

    for (size_t i = 0; i < 12; i++) {
        if (i < ATOLL_ARRAY_LEN(plain)) {
            (void)snprintf(wrong, sizeof(wrong), "%s", plain[i]);
        } else {
            size_t at = strlen(key) - (12 - i) * 4;
            (void)snprintf(wrong, sizeof(wrong), "%s", key);
            wrong[at] = wrong[at] == 'a' ? 'b' : 'a';
        }
        ask_with(raid, wrong, said, sizeof(said));
        if (strncmp(said, "401 ", 4) != 0)
            atoll_outcome_found(o, "a wrong key was answered %.60s", said);
        else if (*first && strcmp(first, said) != 0)
            atoll_outcome_found(o, "wrong keys are told apart: %.60s, %.60s", first, said);
        else
            (void)snprintf(first, sizeof(first), "%s", said);
    }
}

void atoll_attack_guessing(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    const char *key = atoll_raid_key(raid, o, 0);
    char said[300], wrong[ATOLL_ID_LEN * 2];
    bool slowed = false;
    int guesses = 0;

    if (!key)
        return;
    compare_refusals(raid, o, key);
    while (guesses++ < GUESSES && !slowed) {
        memcpy(wrong, "atl_", 4);
        atoll_rand_id(wrong + 4, 40);
        ask_with(raid, wrong, said, sizeof(said));
        slowed = strncmp(said, "429 ", 4) == 0;
        if (!slowed && strncmp(said, "401 ", 4) != 0)
            atoll_outcome_found(o, "a wrong key was answered %.60s", said);
    }
    if (!slowed)
        atoll_outcome_found(o, "%d wrong keys in a row were not slowed down (--wrong-key-rate)",
                            GUESSES);
    ask_with(raid, key, said, sizeof(said));
    if (strncmp(said, "200 ", 4) != 0)
        atoll_outcome_found(o, "a right key was answered %.60s beside wrong ones", said);
    atoll_outcome_note(
        o,
        "wrong keys get one and the same answer, and 429 after %d of them; the right "
        "one goes on working",
        guesses);
}

/* The careless server compares byte by byte and does not limit attempts. */
static size_t compare_carelessly(const char *right, const char *guess)
{
    size_t looked = 0;

    while (right[looked] && right[looked] == guess[looked])
        looked++;
    return looked;
}

void atoll_control_guessing(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char right[41] = "", guess[41] = "";
    size_t known = 0, tries = 0;

    (void)raid;
    atoll_rand_id(right, 40);
    /* The duration of the comparison reveals how much of a guess is right. */
    while (known < 40 && tries < 40 * 36) {
        for (const char *c = "abcdefghijklmnopqrstuvwxyz0123456789"; *c; c++, tries++) {
            guess[known] = *c;
            if (compare_carelessly(right, guess) > known)
                break;
        }
        known++;
    }
    if (strcmp(right, guess) == 0)
        atoll_outcome_found(o, "a key compared byte by byte was guessed in %zu tries", tries);
}

/* D15. */

struct search {
    const char *needle;
    size_t files, found;
    char where[300];
};

/* Files of tenants may contain anything: they are not searched. */
static bool is_tenants(const char *name)
{
    static const char *const dirs[] = {"disks", "images", "templates", "layers", "artifacts"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(dirs); i++)
        if (strcmp(name, dirs[i]) == 0)
            return true;
    return false;
}

static void search_dir(int parent, const char *name, int depth, struct search *s)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (!dir && fd >= 0)
        (void)close(fd);
    while (dir && s->files < FILES_MAX && (entry = readdir(dir))) {
        struct stat st;
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX && !is_tenants(entry->d_name))
            search_dir(dirfd(dir), entry->d_name, depth + 1, s);
        if (!S_ISREG(st.st_mode))
            continue;
        s->files++;
        if (atoll_raid_grep(dirfd(dir), entry->d_name, s->needle, strlen(s->needle)) > 0) {
            s->found++;
            (void)snprintf(s->where, sizeof(s->where), "%s", entry->d_name);
        }
    }
    if (dir)
        (void)closedir(dir);
}

/* Searches what the kernel shows of the daemon's process. */
static void search_process(struct atoll_raid *raid, struct atoll_raid_outcome *o,
                           const char *needle)
{
    static const char *const files[] = {"cmdline", "environ"};
    char path[64];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(files); i++) {
        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)raid->daemon, files[i]);
        if (raid->daemon > 0 && atoll_raid_grep(AT_FDCWD, path, needle, strlen(needle)) > 0)
            atoll_outcome_found(o, "a secret is in %s of the daemon", files[i]);
    }
    if (atoll_raid_processes(needle) > 0)
        atoll_outcome_found(o, "a secret is in the arguments of a process");
}

static void search_api(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *id,
                       const char *needle)
{
    static const char *const targets[] = {"/api/sandboxes/%s",   "/api/sandboxes/%s/execs",
                                          "/api/sandboxes?x=%s", "/metrics?x=%s",
                                          "/api/stats?x=%s",     "/api/keys?x=%s"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(targets); i++) {
        ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
        char target[200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(target, sizeof(target), targets[i], id);
#pragma GCC diagnostic pop
        const struct atoll_ask ask = {.method = "GET", .target = target};
        (void)atoll_raid_ask(raid, &ask, &reply);
        if (atoll_buf_size(&reply.body) > 0 &&
            memmem(atoll_buf_head(&reply.body), atoll_buf_size(&reply.body), needle,
                   strlen(needle)))
            atoll_outcome_found(o, "a secret is in the answer to %s", target);
    }
}

/* Makes a sandbox and commands that have the secret in their environment. */
static bool spread(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *secret,
                   char *id)
{
    char body[300], target[100];

    (void)snprintf(body, sizeof(body),
                   "{\"env\":{\"VERIFY_SECRET\":\"%s\"},\"waive\":[\"all\"],"
                   "\"limits\":{\"timeoutSeconds\":900}}",
                   secret);
    if (!atoll_raid_make(raid, o, NULL, body, id))
        return false;
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/execs", id);
    (void)snprintf(body, sizeof(body),
                   "{\"cmd\":[\"sleep\",\"30\"],\"env\":{\"VERIFY_SECRET\":\"%s\"}}", secret);
    (void)atoll_raid_call(raid, "POST", target, body);
    (void)snprintf(body, sizeof(body),
                   "{\"cmd\":[\"/no/such/program\"],\"env\":{\"VERIFY_SECRET\":\"%s\"}}", secret);
    (void)atoll_raid_call(raid, "POST", target, body);
    return true;
}

void atoll_attack_secrets(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char secret[ATOLL_RAID_ID_MAX], id[ATOLL_RAID_ID_MAX], state[512], log[512], out[100];
    const char *needles[] = {secret, NULL};
    struct atoll_raid_outcome ignored = {0};
    bool seen;

    atoll_rand_id(secret, 30);
    needles[1] = atoll_raid_key(raid, &ignored, 0);
    if (!spread(raid, o, secret, id))
        return;
    /* Do not print the secret itself: the daemon stores the output of commands. */
    if (atoll_raid_sh(raid, id, NULL, "echo ${#VERIFY_SECRET}", out, sizeof(out)) != 0 ||
        strcmp(out, "30\n") != 0)
        atoll_outcome_unknown(o, "the sandbox does not know the secret either");
    seen = atoll_raid_state_dir(raid, state, sizeof(state));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(needles) && needles[i]; i++) {
        struct search search = {.needle = needles[i]};
        search_api(raid, o, id, needles[i]);
        search_process(raid, o, needles[i]);
        if (seen)
            search_dir(AT_FDCWD, state, 0, &search);
        if (search.found > 0)
            atoll_outcome_found(o, "a secret is in the file %s of the daemon", search.where);
        if (atoll_raid_log_file(raid, log, sizeof(log)) &&
            atoll_raid_grep(AT_FDCWD, log, needles[i], strlen(needles[i])) > 0)
            atoll_outcome_found(o, "a secret is in the log of the daemon");
    }
    (void)atoll_raid_drop(raid, id);
    if (!seen)
        atoll_outcome_unknown(o, "the daemon's files cannot be seen by this user (tests: "
                                 "tests/integration/test_access.py)");
    atoll_outcome_note(o,
                       "a variable and a key: in no answer, file, log, argument or environment of "
                       "the daemon");
}

void atoll_control_secrets(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char secret[ATOLL_RAID_ID_MAX], path[600], line[200];

    atoll_rand_id(secret, 30);
    (void)atoll_raid_path(raid, "naive-requests.log", path, sizeof(path));
    (void)snprintf(line, sizeof(line), "POST /api/sandboxes {\"env\":{\"TOKEN\":\"%s\"}}\n",
                   secret);
    if (atoll_raid_write_file(path, line, strlen(line)) == 0 &&
        atoll_raid_grep(AT_FDCWD, path, secret, strlen(secret)) > 0)
        atoll_outcome_found(o, "a server that logs what it is asked logs the secret");
}

/* D16. */

static const char *const empty_keys[] = {
    "Authorization: Bearer \r\n",    "Authorization: Bearer\r\n", "Authorization: \r\n",
    "Authorization: Basic Og==\r\n", "X-API-Key: \r\n",           "X-API-Key:\r\n",
};

static void try_key(struct atoll_raid *raid, struct atoll_raid_outcome *o, bool tcp,
                    const char *header)
{
    static const char *const targets[] = {"GET /api/sandboxes", "POST /api/sandboxes",
                                          "GET /api/keys", "GET /api/no-such-thing"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(targets); i++) {
        struct atoll_buf answer;
        char request[300];
        bool closed;
        int status;
        (void)snprintf(request, sizeof(request),
                       "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: 2"
                       "\r\n\r\n{}",
                       targets[i], header);
        atoll_buf_init(&answer, 64 * 1024);
        status = atoll_raid_raw(raid, tcp, request, strlen(request), ATOLL_RAID_WAIT_MS, &answer,
                                &closed);
        atoll_buf_done(&answer);
        if (status != 401 && status != 429)
            atoll_outcome_found(o, "%s with %s was answered %d", targets[i],
                                *header ? "an empty key" : "no key", status);
    }
}

/* Sends a request as a user that is neither root nor the daemon's; returns the status, 0 if it cannot
 * connect. */
static int ask_as_nobody(const struct atoll_raid *raid)
{
    static const char request[] =
        "GET /api/sandboxes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct atoll_buf answer;
        bool closed;
        int said;
        if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) < 0)
            _exit(200);
        atoll_buf_init(&answer, 64 * 1024);
        said = atoll_raid_raw(raid, false, request, sizeof(request) - 1, ATOLL_RAID_WAIT_MS,
                              &answer, &closed);
        _exit(said == 200 ? 1 : 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

void atoll_attack_missing_key(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    bool remote = strncmp(atoll_client_address(raid->v->client), "http", 4) == 0;
    const char *with_nobody = "";

    if (strncmp(atoll_client_address(raid->v->client), "https", 5) == 0) {
        atoll_outcome_unknown(o, "raw requests do not go through TLS (tests: "
                                 "tests/integration/test_access.py)");
        return;
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(empty_keys); i++)
        try_key(raid, o, false, empty_keys[i]);
    if (remote)
        try_key(raid, o, false, "");
    if (raid->tcp_port)
        try_key(raid, o, true, "");
    if (!remote && geteuid() == 0) {
        if (ask_as_nobody(raid) == 1)
            atoll_outcome_found(o, "the socket serves another user");
        with_nobody = ", and another user at the socket";
    }
    atoll_outcome_note(o, "empty keys%s%s are refused on every route",
                       raid->tcp_port || remote ? ", none over TCP" : "", with_nobody);
}

/* The careless server was started without a key, so the missing key of a client is equal to its own. */
void atoll_control_missing_key(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    const char *configured = "";
    size_t let_in = 0;

    (void)raid;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(empty_keys); i++) {
        char shown[40] = "";
        const char *value = strchr(empty_keys[i], ':') + 1;
        value += strspn(value, " ");
        if (strncmp(value, "Bearer", 6) == 0)
            value += 6 + strspn(value + 6, " ");
        (void)snprintf(shown, sizeof(shown), "%.*s", (int)strcspn(value, "\r"), value);
        let_in += strcmp(shown, configured) == 0;
    }
    if (let_in > 0)
        atoll_outcome_found(o, "a server without a configured key let %zu of %zu in", let_in,
                            ATOLL_ARRAY_LEN(empty_keys));
}
