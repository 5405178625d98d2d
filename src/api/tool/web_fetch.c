#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/collect.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"

/*
 * Pages of the web, fetched by a program inside the sandbox: so its network policy applies, its header rules, and its
 * journal of connections.
 */
#define TIMEOUT_MS 30000
#define PAGE_MAX "1048576" /* bytes that are fetched */
#define SHOWN_MAX ((size_t)100 * 1024)

struct fetch {
    struct atoll_tool_call *call;
    struct atoll_collect collect;
};

/* The first line of the output is the type of the content. $1: the URL, $2: the most bytes. */
static const char script[] =
    "if command -v curl >/dev/null 2>&1; then\n"
    "  t=$(mktemp) || exit 70\n"
    "  c=$(curl -sSL --proto '=http,https' --proto-redir '=http,https' --max-redirs 5 --max-time 25"
    " -A 'Atoll WebFetch' -o \"$t\" -w '%{http_code} %{content_type}' -- \"$1\"); r=$?\n"
    "  echo \"$c\"; head -c \"$2\" \"$t\"; rm -f \"$t\"; exit $r\n"
    "elif command -v python3 >/dev/null 2>&1; then\n"
    "  exec python3 -c 'import sys,urllib.request as u,urllib.error as e\n"
    "q=u.Request(sys.argv[1],headers={\"User-Agent\":\"Atoll WebFetch\"})\n"
    "try: r=u.urlopen(q,timeout=25)\n"
    "except e.HTTPError as x: r=x\n"
    "except Exception as x: sys.exit(str(x))\n"
    "print(r.status,r.headers.get(\"Content-Type\",\"\"),flush=True)\n"
    "sys.stdout.buffer.write(r.read(int(sys.argv[2])))' \"$1\" \"$2\"\n"
    "elif command -v wget >/dev/null 2>&1; then\n"
    "  echo '200 '; wget -q -T 25 -O - -- \"$1\" | head -c \"$2\"\n"
    "else echo 'the sandbox has neither curl nor python3 nor wget' >&2; exit 69\n"
    "fi\n";

static void show(struct fetch *f, struct atoll_buf *text, long *ret_status)
{
    const struct atoll_buf *out = &f->collect.streams[ATOLL_STREAM_STDOUT];
    const char *p = atoll_buf_size(out) > 0 ? (const char *)atoll_buf_head(out) : "";
    const char *end = p + atoll_buf_size(out), *line = memchr(p, '\n', (size_t)(end - p));
    char head[128];

    *ret_status = 0;
    if (!line)
        return;
    (void)snprintf(head, sizeof(head), "%.*s", (int)ATOLL_MIN(line - p, 120), p);
    (void)sscanf(head, "%ld", ret_status);
    if (strstr(head, "html") || !strchr(head, '/'))
        atoll_tool_html_text(line + 1, (size_t)(end - line - 1), text);
    else if (atoll_buf_append(text, line + 1, ATOLL_MIN((size_t)(end - line - 1), SHOWN_MAX)) ==
                 0 &&
             (size_t)(end - line - 1) > SHOWN_MAX)
        (void)!atoll_buf_appends(text, "\n[more is left out here]\n");
}

static void fetched(void *arg, const struct atoll_exec_result *result,
                    const struct atoll_error *error)
{
    struct fetch *f = arg;
    struct atoll_tool_call *call = f->call;
    const struct atoll_buf *said = &f->collect.streams[ATOLL_STREAM_STDERR];
    bool failed = !result || result->kind != ATOLL_END_EXITED || result->code != 0;
    struct atoll_buf text;
    long status = 0;

    call->stop = NULL;
    if (error) {
        atoll_tool_fail(call, error);
    } else {
        atoll_buf_init(&text, SHOWN_MAX + 4096);
        show(f, &text, &status);
        if (failed && atoll_buf_size(said) > 0)
            (void)!atoll_buf_append(&text, atoll_buf_head(said),
                                    ATOLL_MIN(atoll_buf_size(said), (size_t)2000));
        if (!failed && status >= 400)
            (void)!atoll_buf_appendf(&text, "\n[the server answered with status %ld]\n", status);
        atoll_tool_finish(call, &text, json_pack("{s:I}", "status", (json_int_t)status),
                          failed || status >= 400);
    }
    atoll_collect_done(&f->collect);
    free(f);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct fetch *f = arg;

    if (error) {
        atoll_tool_fail(f->call, error);
        free(f);
        return;
    }
    atoll_collect_start(&f->collect, f->call->loop, exec, fetched, f);
}

void atoll_tool_run_web_fetch(struct atoll_tool_call *call)
{
    const char *url = atoll_tool_text(call, "url");
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", url, PAGE_MAX, NULL};
    struct fetch *f;

    if ((strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) ||
        strpbrk(url, " \t\r\n")) {
        atoll_tool_refuse(call, ATOLL_ERR_INVALID_ARGUMENT,
                          "url must begin with http:// or https://, and have no blanks");
        return;
    }
    f = atoll_alloc(sizeof(*f));
    f->call = call;
    atoll_engine_exec(
        call->engine, call->sandbox_id,
        &(struct atoll_exec_start){.argv = argv, .is_command = true, .timeout_ms = TIMEOUT_MS},
        started, f);
}
