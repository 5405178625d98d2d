/*
 * Why code failed. The record of the command is authoritative; the exception that the interpreter
 * wrote is used if the record agrees with it: Python and Node exit with status 1 after an uncaught
 * exception. The traceback is then the end of the error output.
 */
#include "interpreter/explain.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define UNCAUGHT_STATUS 1

/* A line of the output; `end` points behind its last character. */
struct line {
    const char *start, *end;
};

struct text {
    const char *start, *end;
};

/* The line that begins at p; false at the end of the text. */
static bool line_at(const struct text *t, const char *p, struct line *ret)
{
    const char *newline;

    if (p >= t->end)
        return false;
    newline = memchr(p, '\n', (size_t)(t->end - p));
    *ret = (struct line){p, newline ? newline : t->end};
    return true;
}

static bool starts_with(const struct line *l, const char *prefix)
{
    size_t n = strlen(prefix);
    return (size_t)(l->end - l->start) >= n && memcmp(l->start, prefix, n) == 0;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$' || (c & 0x80);
}

/* "Name: value" or "Name", the value up to `end`. False when there is no name. */
static bool take_name(const struct line *l, const char *end, struct atoll_session_error *ret)
{
    const char *p = l->start, *value;
    size_t n;

    while (p < l->end && is_name_char(*p))
        p++;
    n = (size_t)(p - l->start);
    if (n == 0 || n >= sizeof(ret->name) || isdigit((unsigned char)*l->start))
        return false;
    /* Node puts a code between: "TypeError [ERR_INVALID_ARG_TYPE]: …". */
    if (p < l->end && *p == ' ' && p + 1 < l->end && p[1] == '[')
        while (p < l->end && *p != ':')
            p++;
    if (p < l->end && *p != ':')
        return false;
    value = p < l->end ? p + 1 : p;
    while (value < end && *value == ' ')
        value++;
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    memcpy(ret->name, l->start, n);
    ret->name[n] = '\0';
    (void)snprintf(ret->value, sizeof(ret->value), "%.*s",
                   (int)ATOLL_MIN((size_t)(end - value), sizeof(ret->value) - 1), value);
    return true;
}

static void take_traceback(const char *start, const char *end, struct atoll_session_error *ret)
{
    ret->traceback = start;
    ret->traceback_len = (size_t)(end - start);
}

/* Finds the last traceback, or the position of a syntax error; the exception follows on the first
 * line that is not indented. */
static bool explain_python(const struct text *t, struct atoll_session_error *ret)
{
    const char *begin = NULL;
    bool inside = false;
    struct line l, raised = {0};

    for (const char *p = t->start; line_at(t, p, &l); p = l.end + 1) {
        bool header = starts_with(&l, "Traceback (most recent call last):");
        if (header || (!inside && starts_with(&l, "  File \""))) {
            begin = l.start;
            inside = true;
            raised = (struct line){0};
        } else if (inside && l.start < l.end && *l.start != ' ') {
            raised = l;
            inside = false;
        }
    }
    if (!begin || !raised.start || !take_name(&raised, t->end, ret))
        return false;
    take_traceback(begin, t->end, ret);
    return true;
}

static bool is_caret(const struct line *l)
{
    const char *p = l->start;

    while (p < l->end && (*p == ' ' || *p == '\t'))
        p++;
    if (p == l->end)
        return false;
    while (p < l->end && *p == '^')
        p++;
    return p == l->end;
}

/* Node prints the position with a caret under it, then the exception and the stack, then its
 * version. */
static bool explain_node(const struct text *t, struct atoll_session_error *ret)
{
    const char *place = NULL, *before = t->start, *first = t->start, *end = NULL;
    struct line l, thrown = {0};
    bool seen = false;

    for (const char *p = t->start; line_at(t, p, &l); p = l.end + 1) {
        if (is_caret(&l)) {
            seen = true;
            place = first; /* "file:line", the line itself, the caret */
            thrown = (struct line){0};
            end = NULL;
        } else if (seen && !thrown.start && l.start < l.end) {
            thrown = l;
        } else if (thrown.start && !end && (starts_with(&l, "    at ") || l.start == l.end)) {
            end = l.start;
        }
        if (starts_with(&l, "Node.js v") && thrown.start) {
            end = end ? end : l.start;
            if (!take_name(&thrown, end, ret)) {
                (void)snprintf(ret->name, sizeof(ret->name), "Uncaught");
                (void)snprintf(
                    ret->value, sizeof(ret->value), "%.*s",
                    (int)ATOLL_MIN((size_t)(thrown.end - thrown.start), sizeof(ret->value) - 1),
                    thrown.start);
            }
            take_traceback(place, t->end, ret);
            return true;
        }
        first = before;
        before = l.start;
    }
    return false;
}

static const struct {
    const char *language;
    bool (*explain)(const struct text *t, struct atoll_session_error *ret);
} languages[] = {
    {"python", explain_python},
    {"javascript", explain_node},
};

static bool explain_uncaught(const char *language, const struct text *t,
                             struct atoll_session_error *ret)
{
    for (size_t i = 0; language && i < ATOLL_ARRAY_LEN(languages); i++)
        if (strcmp(languages[i].language, language) == 0)
            return languages[i].explain(t, ret);
    return false;
}

/* Code that is a command line. */

static const char *const commands[] = {
    "apt",   "apt-get", "awk",    "bash",   "bun",     "cargo", "cat",   "cd",     "chmod",
    "chown", "cp",      "curl",   "deno",   "df",      "du",    "echo",  "env",    "find",
    "gcc",   "git",     "go",     "grep",   "head",    "java",  "javac", "kill",   "ls",
    "make",  "mkdir",   "mv",     "node",   "npm",     "npx",   "pip",   "pip3",   "pnpm",
    "ps",    "pwd",     "pytest", "python", "python3", "rm",    "sed",   "sh",     "sudo",
    "tail",  "tar",     "touch",  "unzip",  "uv",      "wget",  "which", "whoami", "yarn",
};

static bool is_command_line(const struct line *l)
{
    const char *p = l->start;
    size_t n;

    while (p < l->end && *p != ' ' && *p != '\t' && *p != '\r')
        p++;
    n = (size_t)(p - l->start);
    if (starts_with(l, "./"))
        return n > 2;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(commands); i++)
        if (strlen(commands[i]) == n && memcmp(l->start, commands[i], n) == 0)
            return true;
    return false;
}

bool atoll_code_is_command(const char *code, size_t n)
{
    const struct text t = {code, code + n};
    bool found = false;
    struct line l;

    for (const char *p = t.start; line_at(&t, p, &l); p = l.end + 1) {
        while (l.start < l.end && isspace((unsigned char)*l.start))
            l.start++;
        if (l.start == l.end || *l.start == '#')
            continue;
        if (!is_command_line(&l))
            return false;
        found = true;
    }
    return found;
}

/* "ls -la" is a difference of two unknown names. */
const char *atoll_command_hint(const char *exception)
{
    static const char *const exceptions[] = {"SyntaxError", "NameError", "ReferenceError",
                                             "CompilationError"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exceptions); i++)
        if (strcmp(exception, exceptions[i]) == 0)
            return "this looks like a shell command; run it as a command (commands.run() of "
                   "E2B's SDKs, POST /api/sandboxes/{id}/execs, atoll exec) or with language bash";
    return NULL;
}

void atoll_session_hint(struct atoll_session_error *error)
{
    const char *hint = atoll_command_hint(error->name);
    size_t n = strlen(error->value);

    if (hint)
        (void)snprintf(error->value + n, sizeof(error->value) - n, "; %s", hint);
}

static void say(struct atoll_session_error *ret, const char *name, const char *fmt, ...)
    ATOLL_PRINTF(3, 4);

static void say(struct atoll_session_error *ret, const char *name, const char *fmt, ...)
{
    va_list args;

    (void)snprintf(ret->name, sizeof(ret->name), "%s", name);
    va_start(args, fmt);
    (void)vsnprintf(ret->value, sizeof(ret->value), fmt, args);
    va_end(args);
}

static void explain_record(const struct atoll_exec_result *end, struct atoll_session_error *ret)
{
    const char *name = end->signal > 0 ? sigabbrev_np(end->signal) : NULL;

    switch (end->kind) {
    case ATOLL_END_EXITED:
        say(ret, "ExitCode", "%d", end->code);
        break;
    case ATOLL_END_SIGNALED:
        say(ret, "Signaled", "%s%s (%d)", name ? "SIG" : "", name ? name : "signal", end->signal);
        break;
    case ATOLL_END_TIMED_OUT:
        say(ret, "TimedOut", "stopped after %.3f s, its time limit",
            (double)end->duration_ms / 1000);
        break;
    case ATOLL_END_OOM_KILLED:
        say(ret, "OutOfMemory", "%s was killed: the sandbox used up its %llu MiB of memory",
            end->oom_process[0] ? end->oom_process : "a process",
            (unsigned long long)(end->oom_limit_bytes >> 20));
        break;
    case ATOLL_END_KILLED_BY:
        say(ret, "Killed", "by %s", end->reason);
        break;
    case ATOLL_END_LOST:
        say(ret, "Lost", "%s", end->reason);
        break;
    }
}

void atoll_session_explain(const char *language, const struct atoll_exec_result *end,
                           const uint8_t *err_output, size_t n, struct atoll_session_error *ret)
{
    const char *start = n > 0 ? (const char *)err_output : "";
    const struct text text = {start, start + n};

    *ret = (struct atoll_session_error){.traceback = ""};
    if (end->kind == ATOLL_END_EXITED && end->code == 0)
        return;
    if (end->kind == ATOLL_END_EXITED && end->code == UNCAUGHT_STATUS &&
        explain_uncaught(language, &text, ret))
        return;
    *ret = (struct atoll_session_error){.traceback = ""};
    explain_record(end, ret);
}
