#include "cli/outcome.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/fd.h"
#include "base/text.h"
#include "cli/print.h"
#include "client/result.h"

/* Most bytes of each stream that --json keeps. */
#define CAPTURE_MAX (64u * 1024 * 1024)

void atoll_cli_outcome_init(struct atoll_cli_outcome *outcome, bool capture)
{
    *outcome = (struct atoll_cli_outcome){.capture = capture};
    for (int i = 0; i < ATOLL_CLIENT_STREAMS; i++)
        atoll_buf_init(&outcome->captured[i], CAPTURE_MAX);
}

void atoll_cli_outcome_done(struct atoll_cli_outcome *outcome)
{
    for (int i = 0; i < ATOLL_CLIENT_STREAMS; i++)
        atoll_buf_done(&outcome->captured[i]);
    json_decref(outcome->result);
    outcome->result = NULL;
}

bool atoll_cli_outcome_take(struct atoll_cli_outcome *outcome, int stream, const void *bytes,
                            size_t n)
{
    struct atoll_buf *buf = &outcome->captured[stream];
    size_t kept = ATOLL_MIN(n, CAPTURE_MAX - atoll_buf_size(buf));

    outcome->seen[stream] += n;
    if (!outcome->capture)
        return outcome->closed[stream];
    if (atoll_buf_append(buf, bytes, kept) < 0 || kept < n)
        outcome->truncated[stream] = true;
    return true;
}

int atoll_cli_outcome_output(struct atoll_cli_outcome *outcome, int stream, const void *bytes,
                             size_t n, struct atoll_error *err)
{
    int r;

    if (atoll_cli_outcome_take(outcome, stream, bytes, n))
        return 0;
    r = atoll_fd_write_all(stream, bytes, n);
    if (r == -EPIPE) {
        outcome->closed[stream] = true;
        return 0;
    }
    return r < 0 ? atoll_fail_errno(err, -r, "writing the command's output") : 0;
}

void atoll_cli_outcome_gap(struct atoll_cli_outcome *outcome, int stream, uint64_t from,
                           uint64_t to, bool quiet)
{
    outcome->seen[stream] = to;
    outcome->truncated[stream] = true;
    if (!quiet && !outcome->capture)
        atoll_cli_say("%llu bytes of %s are missing here: the daemon did not keep them",
                      (unsigned long long)(to - from),
                      stream == ATOLL_CLIENT_STDOUT ? "stdout" : "stderr");
}

/* "python3 (pid 7) at 512M of 512M", from the daemon's record of an out-of-memory kill. */
static void describe_oom(const json_t *oom, char *out, size_t cap)
{
    const char *name = atoll_link_text(oom, "process", "");
    char peak[16], limit[16];
    double pid = atoll_link_number(oom, "pid", 0);
    size_t len;

    /* The name is known for the command itself, not for processes it started. */
    (void)snprintf(out, cap, "%.40s", *name ? name : "a process");
    len = strlen(out);
    if (pid > 0)
        (void)snprintf(out + len, cap - len, " (pid %.0f)", pid);
    len = strlen(out);
    (void)snprintf(out + len, cap - len, " at %s of %s",
                   atoll_text_format_size(atoll_link_count(oom, "peak_bytes"), peak),
                   atoll_text_format_size(atoll_link_count(oom, "limit_bytes"), limit));
}

static void explain_exit(const json_t *result, const struct atoll_cli_outcome *outcome ATOLL_UNUSED)
{
    const json_t *oom = json_object_get(result, "oom");
    char text[160];

    if (!json_is_object(oom))
        return;
    describe_oom(oom, text, sizeof(text));
    atoll_cli_say("memory ran out during the command: the kernel killed %s", text);
}

static void explain_signal(const json_t *result, const struct atoll_cli_outcome *outcome)
{
    int signo = atoll_link_signal_number(json_object_get(result, "signal"));
    const char *who = atoll_link_text(result, "who", NULL);
    const char *reason = atoll_link_text(result, "reason", NULL);
    char name[ATOLL_LINK_SIGNAL_MAX];

    /* The user sent this signal (Ctrl-C): no message needed. */
    if (signo > 0 && signo == outcome->signal_sent)
        return;
    /* "who" names the killer, or is a sentence about an exceeded budget. */
    atoll_cli_say("the command was killed by %s%s%s%s%s%s",
                  signo > 0 ? atoll_link_signal_name(signo, name) : "a signal", who ? " (" : "",
                  who ? who : "", who ? ")" : "", reason ? ": " : "", reason ? reason : "");
    explain_exit(result, outcome);
}

static void explain_timeout(const json_t *result,
                            const struct atoll_cli_outcome *outcome ATOLL_UNUSED)
{
    const char *reason = atoll_link_text(result, "reason", "it was killed with all its children");
    double ms = atoll_link_number(result, "duration_ms", -1);

    if (ms >= 0)
        atoll_cli_say("the command timed out after %.1f s: %s", ms / 1000, reason);
    else
        atoll_cli_say("the command timed out: %s", reason);
}

static void explain_oom(const json_t *result, const struct atoll_cli_outcome *outcome ATOLL_UNUSED)
{
    char text[160];

    describe_oom(json_object_get(result, "oom"), text, sizeof(text));
    atoll_cli_say("out of memory: the kernel killed %s; give more with --memory", text);
}

static void explain_lost(const json_t *result, const struct atoll_cli_outcome *outcome ATOLL_UNUSED)
{
    atoll_cli_say("the command was lost and its exit status is unknown: %s",
                  atoll_link_text(result, "reason", "the daemon gives no reason"));
}

static const struct {
    const char *kind;
    void (*explain)(const json_t *result, const struct atoll_cli_outcome *outcome);
} kinds[] = {
    {"exited", explain_exit},
    {"signaled", explain_signal},
    {"killed_by", explain_signal},
    {"timed_out", explain_timeout},
    {"oom_killed", explain_oom},
    /* Last: used for unknown kinds, too. */
    {"lost", explain_lost},
};

static void explain(const struct atoll_cli_outcome *outcome)
{
    const char *kind = atoll_link_text(outcome->result, "kind", "");
    size_t i = 0;

    while (i + 1 < ATOLL_ARRAY_LEN(kinds) && strcmp(kinds[i].kind, kind) != 0)
        i++;
    kinds[i].explain(outcome->result, outcome);
}

static bool is_utf8(const struct atoll_buf *buf)
{
    const uint8_t *p = atoll_buf_head(buf);
    size_t n = atoll_buf_size(buf);

    while (n > 0) {
        size_t len = atoll_text_utf8_len(p, n);
        if (len == 0)
            return false;
        p += len;
        n -= len;
    }
    return true;
}

/* Adds `key` as text. If the bytes are not UTF-8, the text has replacements and KEY_base64 has all bytes. */
static int add_stream(json_t *object, const char *key, const struct atoll_buf *buf, bool truncated)
{
    const char *bytes = (const char *)atoll_buf_head(buf);
    size_t n = atoll_buf_size(buf);
    struct atoll_buf text;
    char name[32];
    int r = 0;

    if (truncated) {
        (void)snprintf(name, sizeof(name), "%s_truncated", key);
        r = json_object_set_new(object, name, json_true());
    }
    if (is_utf8(buf))
        return r < 0 ? r : json_object_set_new(object, key, json_stringn(n ? bytes : "", n));
    atoll_buf_init(&text, 6 * (size_t)CAPTURE_MAX + 2);
    if (r == 0)
        r = atoll_text_json_quote(&text, bytes, n);
    if (r == 0)
        r = json_object_set_new(
            object, key, atoll_link_parse_json(atoll_buf_head(&text), atoll_buf_size(&text)));
    atoll_buf_clear(&text);
    if (r == 0)
        r = atoll_base64_encode(&text, bytes, n);
    (void)snprintf(name, sizeof(name), "%s_base64", key);
    if (r == 0)
        r = json_object_set_new(object, name, json_string(atoll_buf_str(&text)));
    atoll_buf_done(&text);
    return r;
}

/* The daemon sends the name of a signal; the output has the number in "signal", the name in
 * "signal_name". */
static int add_result(json_t *object, json_t *result)
{
    int signo = atoll_link_signal_number(json_object_get(result, "signal"));
    json_t *copy = json_copy(result);
    char name[ATOLL_LINK_SIGNAL_MAX];

    if (!copy)
        return -1;
    if (signo > 0 && (json_object_set_new(copy, "signal", json_integer(signo)) < 0 ||
                      json_object_set_new(copy, "signal_name",
                                          json_string(atoll_link_signal_name(signo, name))) < 0)) {
        json_decref(copy);
        return -1;
    }
    return json_object_set_new(object, "result", copy);
}

static int print_all(const struct atoll_cli_outcome *outcome, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = json_object();

    if (json_object_set_new(object, "sandbox_id", json_string(outcome->sandbox_id)) < 0 ||
        json_object_set_new(object, "exec_id", json_string(outcome->exec_id)) < 0 ||
        add_stream(object, "stdout", &outcome->captured[ATOLL_CLIENT_STDOUT],
                   outcome->truncated[ATOLL_CLIENT_STDOUT]) < 0 ||
        add_stream(object, "stderr", &outcome->captured[ATOLL_CLIENT_STDERR],
                   outcome->truncated[ATOLL_CLIENT_STDERR]) < 0 ||
        add_result(object, outcome->result) < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the result");
    return atoll_cli_print_json(object, err);
}

int atoll_cli_outcome_report(const struct atoll_cli_outcome *outcome, struct atoll_error *err)
{
    int r = outcome->capture ? print_all(outcome, err) : 0;

    if (r < 0)
        return r;
    explain(outcome);
    r = atoll_result_status(outcome->result);
    /* Incomplete output is not success. In JSON, *_truncated reports it instead. */
    if (r == 0 && !outcome->capture &&
        (outcome->truncated[ATOLL_CLIENT_STDOUT] || outcome->truncated[ATOLL_CLIENT_STDERR]))
        return ATOLL_CLI_BROKEN;
    return r;
}
