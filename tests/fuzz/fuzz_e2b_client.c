/*
 * What a service that speaks E2B's protocol answers: the stream of a process, descriptions of sandboxes,
 * samples, refusals. The first byte chooses which, the second the size of the pieces, on which nothing
 * may depend.
 */
#include <errno.h>
#include <string.h>
#include "fuzz.h"
#include "provider/e2b/messages.h"

#define SECRET "e2b_secret"

static int on_event(void *arg, const struct atoll_e2b_event *event)
{
    struct atoll_buf *said = arg;

    FUZZ_CHECK(event->type <= ATOLL_E2B_EVENT_END);
    FUZZ_CHECK(event->type != ATOLL_E2B_EVENT_START || (event->pid > 0 && event->pid <= INT32_MAX));
    FUZZ_CHECK(event->kind <= ATOLL_ERR_UNAUTHENTICATED);
    FUZZ_CHECK(atoll_buf_appendf(said, "%d %u %zu %d %d ", (int)event->type, event->pid, event->len,
                                 event->code, (int)event->kind) == 0);
    FUZZ_CHECK(atoll_buf_append(said, event->bytes, event->len) == 0);
    FUZZ_CHECK(!event->text || atoll_buf_appends(said, event->text) == 0);
    return 0;
}

static int run_events(const uint8_t *data, size_t size, size_t piece, struct atoll_buf *said)
{
    struct atoll_e2b_events events;
    int r = 0;

    atoll_buf_init(said, (size_t)16 * 1024 * 1024);
    atoll_e2b_events_init(&events);
    for (size_t at = 0; at < size && r == 0; at += piece)
        r = atoll_e2b_events_feed(&events, data + at, ATOLL_MIN(piece, size - at), on_event, said);
    FUZZ_CHECK(r == 0 || r == -EBADMSG || r == -EMSGSIZE || r == -ENOBUFS);
    atoll_e2b_events_done(&events);
    return r;
}

static void fuzz_events(const uint8_t *data, size_t size, size_t piece)
{
    struct atoll_buf cut, whole;

    FUZZ_CHECK(run_events(data, size, piece, &cut) == run_events(data, size, size + 1, &whole));
    FUZZ_CHECK(atoll_buf_size(&cut) == atoll_buf_size(&whole));
    FUZZ_CHECK(atoll_buf_size(&cut) == 0 ||
               memcmp(atoll_buf_head(&cut), atoll_buf_head(&whole), atoll_buf_size(&cut)) == 0);
    atoll_buf_done(&cut);
    atoll_buf_done(&whole);
}

/* Handles, tokens and domains become parts of URLs and headers. */
static void fuzz_answers(const uint8_t *data, size_t size, size_t piece)
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    struct atoll_e2b_remote remote;
    struct atoll_e2b_sample sample;
    struct atoll_error err = {0};

    (void)piece;
    if (atoll_e2b_read_remote(json, &remote, &err) == 0) {
        FUZZ_CHECK(*remote.of.handle && !strpbrk(remote.of.handle, "/?#%.:@ \r\n"));
        FUZZ_CHECK(!strpbrk(remote.token, " \t\r\n"));
        FUZZ_CHECK(!strpbrk(remote.domain, "/?#%@ \r\n"));
    } else {
        FUZZ_CHECK(err.kind == ATOLL_ERR_UNAVAILABLE);
    }
    (void)!atoll_e2b_read_sample(json, &sample);
    json_decref(json);
}

static void fuzz_refusal(const uint8_t *data, size_t size, size_t piece)
{
    static const long statuses[] = {400, 401, 404, 409, 302, 429, 500, 503};
    long status = statuses[piece % ATOLL_ARRAY_LEN(statuses)];
    struct atoll_error err = {0};

    FUZZ_CHECK(atoll_remote_refused(&err, &atoll_e2b_service, "try", status, (const char *)data,
                                    size, (uint32_t)piece, SECRET) < 0);
    FUZZ_CHECK(err.kind != ATOLL_ERR_NONE && !strstr(err.text, SECRET));
    for (const char *p = err.text; *p; p++)
        FUZZ_CHECK(*p >= ' ' && *p <= '~');
    FUZZ_CHECK(atoll_e2b_most_hours((const char *)data, size) < 24 * 366);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const uint8_t *, size_t, size_t) = {fuzz_events, fuzz_answers,
                                                                     fuzz_refusal};

    if (size < 2)
        return 0;
    kinds[data[0] % ATOLL_ARRAY_LEN(kinds)](data + 2, size - 2, (size_t)data[1] + 1);
    return 0;
}
