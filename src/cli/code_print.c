#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/fd.h"
#include "cli/code.h"
#include "cli/print.h"

#define CODE_MAX (16u * 1024 * 1024)
#define READ_BYTES ((size_t)64 * 1024)

static int read_all(int fd, struct atoll_buf *out)
{
    for (;;) {
        uint8_t *tail;
        ssize_t n;
        int r = atoll_buf_reserve(out, READ_BYTES, &tail);
        if (r < 0)
            return r;
        n = read(fd, tail, READ_BYTES);
        if (n == 0)
            return 0;
        if (n > 0)
            atoll_buf_commit(out, (size_t)n);
        else if (errno != EINTR)
            return -errno;
    }
}

static int add_bytes(json_t *request, const char *bytes, size_t n, struct atoll_error *err)
{
    if (json_object_set_new(request, "code", json_stringn(bytes, n)) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "the code is not valid UTF-8");
    return 0;
}

int atoll_cli_code_add(json_t *request, const char *text, const char *file, struct atoll_error *err)
{
    const char *name = file ? file : "standard input";
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct atoll_buf code;
    int r;

    if (text && file)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "CODE and --file exclude each other");
    if (text && strcmp(text, "-") != 0)
        return add_bytes(request, text, strlen(text), err);
    if (file && strcmp(file, "-") != 0)
        fd = open(file, O_RDONLY | O_CLOEXEC);
    else
        fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", name,
                          strerror(errno));
    atoll_buf_init(&code, CODE_MAX + READ_BYTES);
    r = read_all(fd, &code);
    if (r < 0)
        r = atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r, "%.200s: %s", name,
                       strerror(-r));
    else
        r = add_bytes(request, atoll_buf_str(&code), atoll_buf_size(&code), err);
    atoll_buf_done(&code);
    return r;
}

/* A result has one value in several formats; a terminal can show its text. */
void atoll_cli_code_print_result(const json_t *result)
{
    static const char *const formats[] = {"text",  "markdown",   "html",  "json",
                                          "latex", "svg",        "png",   "jpeg",
                                          "pdf",   "javascript", "chart", "data"};
    const json_t *text = json_object_get(result, "text");

    if (json_is_string(text)) {
        (void)fwrite(json_string_value(text), 1, json_string_length(text), stdout);
        (void)fputc('\n', stdout);
    }
    for (size_t i = 1; i < ATOLL_ARRAY_LEN(formats); i++)
        if (json_object_get(result, formats[i])) {
            atoll_cli_say("a result has the format %s, too; --json shows it", formats[i]);
            break;
        }
    (void)fflush(stdout);
}

/* Code that ends with a status, such as by sys.exit(3) or as a shell does. */
static bool is_exit(const json_t *error, unsigned *ret_status)
{
    static const struct {
        const char *name, *before; /* the status in its value */
    } exits[] = {
        {"ExitCode", ""},
        {"ExitStatus", ""},
        {"SystemExit", ""},
        {"InterpreterEnded", "the interpreter ended with status "},
    };
    const char *name = atoll_link_text(error, "name", "");
    const char *value = atoll_link_text(error, "value", "");

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exits); i++)
        if (strcmp(exits[i].name, name) == 0) {
            size_t n = strlen(exits[i].before);
            return strncmp(value, exits[i].before, n) == 0 &&
                   sscanf(value + n, "%9u", ret_status) == 1;
        }
    return false;
}

void atoll_cli_code_print_error(const json_t *error)
{
    const char *trace = atoll_link_text(error, "traceback", "");
    size_t n = strlen(trace);
    unsigned status;

    if (is_exit(error, &status))
        return; /* the exit status says it */
    if (n > 0)
        (void)fprintf(stderr, "%s%s", trace, trace[n - 1] == '\n' ? "" : "\n");
    else
        atoll_cli_say("%s: %s", atoll_link_text(error, "name", "?"),
                      atoll_link_text(error, "value", ""));
}

int atoll_cli_code_status(const json_t *error)
{
    const char *name = atoll_link_text(error, "name", "");
    unsigned status;

    if (!json_is_object(error))
        return ATOLL_CLI_OK;
    if (strcmp(name, "TimedOut") == 0)
        return ATOLL_CLI_TIMED_OUT;
    if (strcmp(name, "OutOfMemory") == 0)
        return ATOLL_CLI_OUT_OF_MEMORY;
    return is_exit(error, &status) ? (int)(status & 0xff) : ATOLL_CLI_FAILED;
}

/* Bytes that are no text are in NAME_base64. */
static void print_stream(const json_t *execution, const char *name, FILE *to)
{
    const json_t *text = json_object_get(execution, name), *coded;
    struct atoll_buf bytes;
    char key[32];

    (void)snprintf(key, sizeof(key), "%s_base64", name);
    coded = json_object_get(execution, key);
    atoll_buf_init(&bytes, ATOLL_LINK_REPLY_MAX);
    if (json_is_string(coded) &&
        atoll_base64_decode(&bytes, json_string_value(coded), json_string_length(coded)) == 0)
        (void)fwrite(atoll_buf_head(&bytes), 1, atoll_buf_size(&bytes), to);
    else if (json_is_string(text))
        (void)fwrite(json_string_value(text), 1, json_string_length(text), to);
    (void)fflush(to);
    atoll_buf_done(&bytes);
    (void)snprintf(key, sizeof(key), "%s_truncated", name);
    if (json_is_true(json_object_get(execution, key)))
        atoll_cli_say("%s is longer; only its beginning is shown", name);
}

int atoll_cli_code_print(const json_t *execution)
{
    const json_t *results = json_object_get(execution, "results");
    const json_t *error = json_object_get(execution, "error");

    print_stream(execution, "stdout", stdout);
    print_stream(execution, "stderr", stderr);
    for (size_t i = 0; i < json_array_size(results); i++)
        atoll_cli_code_print_result(json_array_get(results, i));
    if (json_is_object(error))
        atoll_cli_code_print_error(error);
    return atoll_cli_code_status(error);
}
