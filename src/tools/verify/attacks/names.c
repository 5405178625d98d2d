/*
 * Names and texts that are dangerous where they are used later: in a shell, git, HTTP headers, a log.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "sys/tree.h"
#include "tools/verify/attacks/attacks_internal.h"

#define CHILD_SECONDS 10
#define INJECTED "x-injected"

/* Runs a program on the host for a control, without output; returns its exit status, or -1. */
static int run_outside(const struct atoll_raid *raid, char *const *argv)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)alarm(CHILD_SECONDS);
        if (null >= 0) {
            (void)dup2(null, 0);
            (void)dup2(null, 1);
            (void)dup2(null, 2);
        }
        (void)setenv("HOME", raid->v->scratch, 1);
        (void)setenv("XDG_CONFIG_HOME", raid->v->scratch, 1);
        (void)setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Whether a file was written to `drop`; restores the canaries. */
static bool was_dropped(struct atoll_raid *raid)
{
    struct atoll_raid_outcome seen = {0};
    bool dropped = !atoll_raid_canaries_sing(raid, &seen, "");

    atoll_raid_reset_canaries(raid);
    return dropped;
}

/* D8. */

static void git_config(const struct atoll_raid *raid, char *out, size_t cap)
{
    const char *d = raid->drop;

    (void)snprintf(out, cap,
                   "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch %s/fsmonitor #\n"
                   "\tpager = touch %s/pager\n\tsshCommand = touch %s/ssh\n"
                   "\thooksPath = hooks\n[filter \"f\"]\n\tclean = touch %s/filter; cat\n"
                   "\tsmudge = touch %s/filter; cat\n[alias]\n\tstatus = !touch %s/alias\n"
                   "[diff]\n\texternal = touch %s/diff\n",
                   d, d, d, d, d, d, d);
}

static const struct {
    const char *path, *text;
    unsigned mode;
} git_files[] = {
    {".git/HEAD", "ref: refs/heads/main\n", 0644},
    {".git/refs/heads/.keep", "", 0644},
    {".git/objects/.keep", "", 0644},
    {".gitattributes", "* filter=f\n", 0644},
    {"file", "content\n", 0644},
};

static bool put_repository(struct atoll_raid *raid, const char *id)
{
    char config[6000], path[100];

    git_config(raid, config, sizeof(config));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(git_files); i++) {
        (void)snprintf(path, sizeof(path), "repo/%s", git_files[i].path);
        if (atoll_client_file_write(raid->v->client, id, NULL, path, git_files[i].mode,
                                    git_files[i].text, strlen(git_files[i].text), NULL) < 0)
            return false;
    }
    return atoll_client_file_write(raid->v->client, id, NULL, "repo/.git/config", 0644, config,
                                   strlen(config), NULL) >= 0;
}

void atoll_attack_git(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char id[ATOLL_RAID_ID_MAX];

    if (!atoll_raid_make(raid, o, NULL, NULL, id))
        return;
    if (!put_repository(raid, id))
        atoll_outcome_unknown(o, "the repository could not be put into a sandbox");
    /* All requests for which the daemon walks through a tenant's directory tree. */
    (void)atoll_raid_callf(raid, "GET", "/api/sandboxes/%s/files/list?path=repo&depth=8", id);
    (void)atoll_raid_callf(raid, "GET", "/api/sandboxes/%s/archive?path=repo", id);
    (void)atoll_raid_callf(raid, "GET", "/api/sandboxes/%s/files/stat?path=repo/.git", id);
    (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s?artifacts=repo/**", id);
    (void)atoll_raid_callf(raid, "GET", "/api/artifacts/%s", id);
    (void)atoll_raid_callf(raid, "DELETE", "/api/artifacts/%s", id);
    (void)atoll_raid_drop(raid, id);
    (void)atoll_raid_canaries_sing(raid, o, "a git repository");
    atoll_outcome_note(o, "a repository whose configuration runs commands was listed, archived and "
                          "kept as artifacts");
}

void atoll_control_git(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const dirs[] = {"repo", "repo/.git", "repo/.git/refs",
                                       "repo/.git/refs/heads", "repo/.git/objects"};
    char path[600], repo[600], config[6000], file[100];
    char *const status[] = {"git", "-C", repo, "status", NULL};
    char *const add[] = {"git", "-C", repo, "add", "-A", NULL};
    int ended;

    (void)atoll_raid_path(raid, "repo", repo, sizeof(repo));
    (void)!atoll_tree_remove(AT_FDCWD, repo);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(dirs); i++)
        (void)mkdir(atoll_raid_path(raid, dirs[i], path, sizeof(path)), 0700);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(git_files); i++) {
        (void)snprintf(file, sizeof(file), "repo/%s", git_files[i].path);
        (void)!atoll_raid_write_file(atoll_raid_path(raid, file, path, sizeof(path)),
                                     git_files[i].text, strlen(git_files[i].text));
    }
    git_config(raid, config, sizeof(config));
    (void)!atoll_raid_write_file(atoll_raid_path(raid, "repo/.git/config", path, sizeof(path)),
                                 config, strlen(config));
    ended = run_outside(raid, status);
    if (ended != 127)
        (void)run_outside(raid, add);
    if (ended == 127)
        atoll_outcome_unknown(o, "git is not installed here");
    if (was_dropped(raid))
        atoll_outcome_found(o, "git on the host ran what the repository says");
}

/* D9. */

static const char *const hostile_names[] = {
    "a\r\nX-Injected: yes\r\nb",    "a\nX-Injected: yes",    "a\"; filename=\"b\r\nX-Injected: yes",
    "a\xe2\x80\xa8X-Injected: yes", "a\";x-injected=yes;\"", "<script>\x1b[2J%0d%0aX-Injected: yes",
};

static void judge_header(struct atoll_raid_outcome *o, const struct atoll_http_reply *reply)
{
    const char *disposition = atoll_http_reply_header(reply, "content-disposition");
    const char *sniff = atoll_http_reply_header(reply, "x-content-type-options");

    if (atoll_http_reply_header(reply, INJECTED))
        atoll_outcome_found(o, "the name of a file became a header");
    if (disposition && (strstr(disposition, ";x-injected=") || strpbrk(disposition, "\r\n\x1b")))
        atoll_outcome_found(o, "a name broke out of Content-Disposition: %.100s", disposition);
    if (!disposition || strncmp(disposition, "attachment", 10) != 0)
        atoll_outcome_found(o, "a download is no attachment");
    if (!sniff || strcmp(sniff, "nosniff") != 0)
        atoll_outcome_found(o, "a download may be sniffed");
}

static void download_by_name(struct atoll_raid *raid, struct atoll_raid_outcome *o,
                             const char *name, size_t *tried)
{
    ATOLL_AUTOREPLY struct atoll_http_reply put = {0}, get = {0};
    struct atoll_link_target target;
    struct atoll_error err;
    struct atoll_ask ask = {.method = "PUT", .target = target.text, .body = "x", .size = 1};
    int status;

    if (atoll_link_target(&target, &err, "/api/sandboxes/%s/files?path=%s", raid->box, name) < 0)
        return;
    (void)atoll_raid_ask(raid, &ask, &put);
    ask = (struct atoll_ask){.method = "GET", .target = target.text};
    status = atoll_raid_ask(raid, &ask, &get);
    if (status == 200) {
        judge_header(o, &get);
        *tried += 1;
    } else if (status == 0 || status >= 500) {
        atoll_outcome_found(o, "the download of a strange name was answered %d", status);
    }
}

static void inject_by_target(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const targets[] = {"/preview/%s/80%%0d%%0aX-Injected:%%20yes/",
                                          "/preview/%s/80?a=%%0d%%0aX-Injected:%%20yes",
                                          "/api/sandboxes/%s/%%0d%%0aX-Injected:%%20yes"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(targets); i++) {
        char target[200], request[1200], credentials[600];
        struct atoll_buf answer;
        bool closed;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(target, sizeof(target), targets[i], raid->box);
#pragma GCC diagnostic pop
        (void)snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", target,
                       atoll_raid_credentials(raid, credentials, sizeof(credentials)));
        atoll_buf_init(&answer, 64 * 1024);
        (void)atoll_raid_raw(raid, false, request, strlen(request), ATOLL_RAID_WAIT_MS, &answer,
                             &closed);
        if (strcasestr(atoll_buf_str(&answer), "\nX-Injected: yes"))
            atoll_outcome_found(o, "a target became a header: %.60s", target);
        atoll_buf_done(&answer);
    }
}

void atoll_attack_header_injection(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    size_t tried = 0;

    if (!atoll_raid_box(raid, o))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(hostile_names); i++)
        download_by_name(raid, o, hostile_names[i], &tried);
    inject_by_target(raid, o);
    if (tried == 0)
        atoll_outcome_unknown(o, "no file with a strange name could be made");
    atoll_outcome_note(o,
                       "%zu downloads with names that hold line ends and quotes: encoded, as "
                       "attachments, not to be sniffed",
                       tried);
}

void atoll_control_header_injection(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char head[400];
    size_t fell = 0;

    (void)raid;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(hostile_names); i++) {
        (void)snprintf(head, sizeof(head),
                       "Content-Disposition: attachment; filename=\"%s\"\r\nX-Last: 1\r\n",
                       hostile_names[i]);
        fell += strcasestr(head, "\nX-Injected: yes") != NULL ||
                strcasestr(head, "\";x-injected=") != NULL;
    }
    if (fell > 0)
        atoll_outcome_found(o, "%zu of %zu names became headers of a careless server", fell,
                            ATOLL_ARRAY_LEN(hostile_names));
}

/* D22. %s is a file that must not be created. */

static const char *const shell_words[] = {
    "$(touch %s/ran)",
    "`touch %s/ran`",
    "x;touch %s/ran;",
    "x|touch %s/ran",
    "x\ntouch %s/ran\n",
    "' ;touch %s/ran; '",
    "--checkpoint-action=exec=touch %s/ran",
    "-I touch %s/ran",
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static const char *shell_word(const struct atoll_raid *raid, size_t i, char *out, size_t cap)
{
    (void)snprintf(out, cap, shell_words[i], raid->drop);
    return out;
}
#pragma GCC diagnostic pop

static void say_in_body(struct atoll_raid *raid, const char *target, json_t *body)
{
    ATOLL_AUTOFREE char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    ATOLL_AUTOJSON json_t *made = text ? atoll_raid_json(raid, "POST", target, text) : NULL;
    const char *id = atoll_link_text(made, "id", "");

    if (*id && strcmp(target, "/api/sandboxes") == 0)
        (void)atoll_raid_drop(raid, id);
    json_decref(body);
}

/* Uses the text everywhere a client may choose a name. */
static void say_everywhere(struct atoll_raid *raid, const char *word)
{
    static const char *const paths[] = {"GET /api/sandboxes/%s/archive?path=%s",
                                        "PUT /api/sandboxes/%s/archive?path=%s",
                                        "PUT /api/sandboxes/%s/archive?path=x&compression=%s",
                                        "POST /api/sandboxes/%s/files/mkdir?path=%s",
                                        "GET /api/sandboxes/%s/files/list?path=%s",
                                        "GET /api/sandboxes/%s/files/list?path=.&user=%s",
                                        "DELETE /api/sandboxes/%s/files?recursive=true&path=%s",
                                        "DELETE /api/sandboxes/%s/contexts/%s"};
    char method[8], execs[100];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(paths); i++) {
        size_t n = strcspn(paths[i], " ");
        (void)snprintf(method, sizeof(method), "%.*s", (int)n, paths[i]);
        (void)atoll_raid_callf(raid, method, paths[i] + n + 1, raid->box, word);
    }
#pragma GCC diagnostic pop
    (void)atoll_raid_callf(raid, "PUT", "/api/templates/%s", word);
    (void)snprintf(execs, sizeof(execs), "/api/sandboxes/%s/execs?wait=true", raid->box);
    say_in_body(raid, execs, json_pack("{s:[s], s:s}", "cmd", "true", "cwd", word));
    say_in_body(raid, execs, json_pack("{s:[s], s:s}", "cmd", "true", "user", word));
    say_in_body(raid, execs, json_pack("{s:[s]}", "cmd", word));
    say_in_body(raid, execs, json_pack("{s:[s], s:{s:s}}", "cmd", "true", "env", "A", word));
    say_in_body(raid, "/api/sandboxes", json_pack("{s:s}", "template", word));
    say_in_body(raid, "/api/sandboxes", json_pack("{s:s}", "image", word));
    say_in_body(raid, "/api/sandboxes", json_pack("{s:s}", "provider", word));
    say_in_body(raid, "/api/sandboxes", json_pack("{s:{s:s}}", "metadata", "a", word));
    say_in_body(raid, "/api/sandboxes", json_pack("{s:[s]}", "artifacts", word));
    say_in_body(raid, "/api/sessions", json_pack("{s:s}", "environment", word));
    say_in_body(raid, "/api/keys", json_pack("{s:s, s:s}", "tenant", word, "scope", "read"));
}

void atoll_attack_shell(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char word[800], script[1200];

    if (!atoll_raid_box(raid, o))
        return;
    /* The same place inside, for what is run there. */
    (void)snprintf(script, sizeof(script), "mkdir -p '%s' && chmod 777 '%s'", raid->drop,
                   raid->drop);
    if (atoll_raid_sh(raid, raid->box, "root", script, NULL, 0) != 0)
        atoll_outcome_unknown(o, "the place to look at could not be made inside");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(shell_words); i++)
        say_everywhere(raid, shell_word(raid, i, word, sizeof(word)));
    (void)snprintf(script, sizeof(script), "cat '%s/ran'", raid->drop);
    if (atoll_raid_sh(raid, raid->box, "root", script, NULL, 0) == 0)
        atoll_outcome_found(o, "a name was run as a command inside the sandbox");
    (void)atoll_raid_canaries_sing(raid, o, "a name");
    (void)atoll_raid_alive(raid, o, "strange names");
    atoll_outcome_note(o,
                       "%zu words of a shell as names of files, directories, users, templates, "
                       "images, tenants",
                       ATOLL_ARRAY_LEN(shell_words));
}

void atoll_control_shell(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char word[800], line[1000];
    char *const argv[] = {"sh", "-c", line, NULL};
    size_t fell = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(shell_words); i++) {
        (void)snprintf(line, sizeof(line), "echo %s", shell_word(raid, i, word, sizeof(word)));
        (void)run_outside(raid, argv);
        fell += was_dropped(raid);
    }
    if (fell > 0)
        atoll_outcome_found(o, "%zu of %zu names were run by a careless shell line", fell,
                            ATOLL_ARRAY_LEN(shell_words));
}

/* D23. */

#define FORGED "\n{\"level\":\"info\",\"msg\":\"forged-%.26s\"}\n"
#define ESCAPE "\x1b[2J%.26s"

/* Every line of the last part of a log is one JSON object. */
static void judge_lines(struct atoll_raid_outcome *o, const char *dir, const char *name)
{
    static char text[64 * 1024];
    char path[700];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    (void)lseek(fd, -(off_t)(sizeof(text) - 1), SEEK_END);
    n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    for (char *line = strchr(text, '\n'), *next; line; line = next) {
        next = strchr(++line, '\n');
        if (!next)
            break; /* incomplete: still being written */
        ATOLL_AUTOJSON json_t *value = atoll_link_parse_json(line, (size_t)(next - line));
        if (!json_is_object(value)) {
            atoll_outcome_found(o, "%s has a line that is no JSON", name);
            break;
        }
    }
}

static void judge_log(struct atoll_raid *raid, struct atoll_raid_outcome *o, int dirfd,
                      const char *path)
{
    char needle[100];

    (void)snprintf(needle, sizeof(needle), FORGED, raid->mark);
    if (atoll_raid_grep(dirfd, path, needle, strlen(needle) - 3) > 0)
        atoll_outcome_found(o, "a client wrote a line of its own into %s", path);
    (void)snprintf(needle, sizeof(needle), ESCAPE, raid->mark);
    if (atoll_raid_grep(dirfd, path, needle, strlen(needle)) > 0)
        atoll_outcome_found(o, "%s holds a terminal escape of a client", path);
}

static void send_log_texts(struct atoll_raid *raid)
{
    char forged[100], escape[100], target[100];
    const char *const texts[] = {forged, escape};

    (void)snprintf(forged, sizeof(forged), FORGED, raid->mark);
    (void)snprintf(escape, sizeof(escape), ESCAPE, raid->mark);
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/execs?wait=true", raid->box);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++) {
        const char *t = texts[i];
        say_in_body(raid, target, json_pack("{s:[s,s]}", "cmd", "true", t));
        say_in_body(raid, target, json_pack("{s:[s]}", "cmd", t));
        say_in_body(raid, target, json_pack("{s:[s], s:{s:s}}", "cmd", "true", "env", "A", t));
        say_in_body(raid, target, json_pack("{s:[s], s:s}", "cmd", "true", "user", t));
        say_in_body(raid, "/api/sandboxes", json_pack("{s:s}", "template", t));
        say_in_body(raid, "/api/sandboxes", json_pack("{s:s}", "provider", t));
        say_in_body(raid, "/api/keys", json_pack("{s:s, s:s}", "tenant", t, "scope", "read"));
        (void)atoll_raid_callf(raid, "PUT", "/api/sandboxes/%s/files?path=%s", raid->box, t);
        (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s", t);
        (void)atoll_raid_callf(raid, "PUT", "/api/templates/%s", t);
    }
}

void atoll_attack_log_injection(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char state[512], log[512];
    bool has_state, has_log;

    if (!atoll_raid_box(raid, o))
        return;
    send_log_texts(raid);
    has_state = atoll_raid_state_dir(raid, state, sizeof(state));
    has_log = atoll_raid_log_file(raid, log, sizeof(log));
    if (has_state) {
        ATOLL_AUTOCLOSE int dir = open(state, O_PATH | O_DIRECTORY | O_CLOEXEC);
        judge_log(raid, o, dir, "audit.log");
        judge_lines(o, state, "audit.log");
    }
    if (has_log)
        judge_log(raid, o, AT_FDCWD, log);
    if (!has_state && !has_log)
        atoll_outcome_unknown(o, "the daemon's logs cannot be seen by this user (tests: "
                                 "tests/integration/test_access.py)");
    atoll_outcome_note(o, "line ends and escapes in every name: not in %s%s",
                       has_state ? "the audit log" : "the log",
                       has_state && has_log ? ", not in the log" : "");
}

void atoll_control_log_injection(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char path[600], forged[100], line[300];
    struct atoll_raid_outcome seen = {0};

    (void)snprintf(forged, sizeof(forged), FORGED, raid->mark);
    (void)snprintf(line, sizeof(line), "{\"msg\":\"no template\",\"name\":\"%s\"}\n", forged);
    (void)atoll_raid_path(raid, "naive.log", path, sizeof(path));
    if (atoll_raid_write_file(path, line, strlen(line)) < 0)
        atoll_outcome_unknown(o, "no log could be written: %s", strerror(errno));
    judge_log(raid, &seen, AT_FDCWD, path);
    if (seen.verdict == ATOLL_VERDICT_FOUND)
        atoll_outcome_found(o, "a log written with printf has a line that a client made up");
}
