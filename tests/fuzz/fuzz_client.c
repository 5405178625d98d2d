/*
 * What a daemon says to libatoll and the command line: JSON answers and errors, the journal of a command
 * line by line, a command by WebSocket. The first byte chooses which.
 */
#include "fuzz_line.h"

#include "client/attach.c"
#include "client/link.c"

static struct atoll_client *new_client(void)
{
    const struct atoll_client_options options = {.size = sizeof(options), .address = "/nowhere"};
    struct atoll_client *client;

    FUZZ_CHECK(atoll_link_open(&options, &client, NULL) == 0);
    return client;
}

static void check_error(const struct atoll_client *client, int r, const struct atoll_error *err)
{
    FUZZ_CHECK(r < 0 && strnlen(err->text, sizeof(err->text)) < sizeof(err->text));
    FUZZ_CHECK(strnlen(client->hint, sizeof(client->hint)) < sizeof(client->hint));
}

static void check_result(const struct atoll_client_result *result)
{
    FUZZ_CHECK(result->status >= 0 && result->status <= 255);
    FUZZ_CHECK(result->end != ATOLL_CLIENT_EXITED ||
               (result->exit_code >= 0 && result->exit_code <= 255));
    FUZZ_CHECK(result->who && result->reason && result->oom.process && result->json);
}

/* An answer with a record in it, as `atoll run` without a terminal gets it. */
static void fuzz_answer(struct atoll_client *client, const uint8_t *data, size_t size)
{
    struct atoll_client_result *result;
    struct atoll_error err = {0};
    json_t *reply = NULL;
    int server = line_with(client->http, data, size);
    int r = atoll_link_call(client, "POST", "/api/run", NULL, &reply, &err);

    if (r < 0)
        check_error(client, r, &err);
    else if (atoll_result_new(reply, "box", "exec", NULL, NULL, &result, &err) == 0) {
        check_result(result);
        atoll_client_result_free(result);
    }
    json_decref(reply);
    (void)close(server);
}

static int on_output(void *arg, int stream, const void *bytes, size_t n, struct atoll_error *err)
{
    (void)arg;
    (void)err;
    FUZZ_CHECK((stream == ATOLL_CLIENT_STDOUT || stream == ATOLL_CLIENT_STDERR) && bytes && n > 0);
    return 0;
}

static void on_dropped(void *arg, int stream, uint64_t from, uint64_t to)
{
    (void)arg;
    FUZZ_CHECK((stream == ATOLL_CLIENT_STDOUT || stream == ATOLL_CLIENT_STDERR) && from < to);
}

static void fuzz_journal(struct atoll_client *client, const uint8_t *data, size_t size)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    struct atoll_follow follow = {
        .sandbox_id = "box", .exec_id = "exec", .output = on_output, .dropped = on_dropped};
    struct atoll_error err = {0};
    uint8_t *whole = malloc(sizeof(head) + size);
    int server, r;

    FUZZ_CHECK(whole);
    memcpy(whole, head, sizeof(head) - 1);
    memcpy(whole + sizeof(head) - 1, data, size);
    server = line_with(client->http, whole, sizeof(head) - 1 + size);
    r = atoll_follow_read(client, &follow, &err);
    if (r < 0)
        check_error(client, r, &err);
    json_decref(follow.result);
    free(whole);
    (void)close(server);
}

static void on_progress(void *arg, const char *text)
{
    (void)arg;
    FUZZ_CHECK(text);
}

static void fuzz_process(struct atoll_client *client, const uint8_t *data, size_t size)
{
    struct atoll_client_process *p = calloc(1, sizeof(*p));
    const struct atoll_client_event *event;
    struct atoll_error err = {0};
    int server, r;

    FUZZ_CHECK(p);
    p->client = client;
    atoll_attach_on_progress(p, on_progress, NULL);
    server = websocket_with(client->http, data, size, 0, ATOLL_LINK_REPLY_MAX, &p->ws);
    while ((r = atoll_attach_next(p, 0, &event, &err)) == 1) {
        FUZZ_CHECK(event->kind != ATOLL_CLIENT_EVENT_OUTPUT ||
                   (event->size > 0 && event->stream >= 1 && event->stream <= 2));
        FUZZ_CHECK(event->kind != ATOLL_CLIENT_EVENT_DROPPED || event->from < event->to);
        if (event->kind == ATOLL_CLIENT_EVENT_END)
            check_result(p->result);
    }
    check_error(client, r, &err);
    atoll_client_process_free(p);
    (void)close(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(struct atoll_client *, const uint8_t *,
                                 size_t) = {fuzz_answer, fuzz_journal, fuzz_process};
    struct atoll_client *client;

    if (size < 1 || size > 100 * 1024)
        return 0;
    client = new_client();
    kinds[data[0] % ATOLL_ARRAY_LEN(kinds)](client, data + 1, size - 1);
    atoll_client_close(client);
    return 0;
}
