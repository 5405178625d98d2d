/*
 * One request to a registry: finds the client, sends the login that is known or asked for, follows
 * redirects, tries again.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/text.h"
#include "image/registry_internal.h"
#include "provider/remote/retry.h"

#define REDIRECTS_MAX 8
#define DOCUMENT_MS 60000 /* until a document is there */
#define COMMIT_MS 600000  /* a registry may read a whole blob before it answers */
/* A try needs so much time before the deadline: or else the client would be told of the deadline, and not
 * of what failed before. */
#define TRY_MS 200
#define RETRY_AFTER_MAX 30u /* seconds; a registry that asks for more is not asked again */

struct reader {
    struct atoll_image_part part;
    const struct atoll_image_call *call;
    int64_t reported_ms;
};

static ssize_t read_part(void *arg, void *out, size_t cap)
{
    struct reader *reader = arg;
    size_t n = (size_t)ATOLL_MIN((uint64_t)cap, reader->part.end - reader->part.at);
    ssize_t got = n > 0 ? pread(reader->part.fd, out, n, (off_t)reader->part.at) : 0;

    if (got > 0)
        reader->part.at += (uint64_t)got;
    if (got > 0 && reader->call->progress &&
        atoll_clock_ms() - reader->reported_ms >= ATOLL_IMAGE_REPORT_MS) {
        reader->reported_ms = atoll_clock_ms();
        reader->call->progress(reader->call->progress_arg, reader->part.blob, reader->part.at);
    }
    return n > 0 && got == 0 ? -1 : got; /* the file is shorter than it was */
}

static void append_challenge(struct atoll_image_head *head, const char *line, size_t n)
{
    char one[2048];
    size_t at = strlen(head->challenge);

    if (atoll_remote_take_header(line, n, "www-authenticate", one, sizeof(one)))
        (void)snprintf(head->challenge + at, sizeof(head->challenge) - at, "%s%s", at ? ", " : "",
                       one);
}

/* "HTTP/1.1 206 Partial Content": a new head begins; those before it were of a proxy, or 1xx. */
static bool take_status(struct atoll_image_head *head, const char *line, size_t n)
{
    const char *space = n > 5 && memcmp(line, "HTTP/", 5) == 0 ? memchr(line, ' ', n) : NULL;
    char text[4];
    uint64_t status;

    if (!space || (size_t)(line + n - space) < 4)
        return false;
    *head = (struct atoll_image_head){0};
    (void)snprintf(text, sizeof(text), "%.3s", space + 1);
    if (atoll_text_u64(text, 100, 999, &status) == 0)
        head->status = (long)status;
    return true;
}

static void on_head(void *arg, const char *line, size_t n)
{
    struct atoll_image_head *head = arg;
    const struct {
        const char *name;
        char *out;
        size_t cap;
    } wanted[] = {
        {"content-type", head->type, sizeof(head->type)},
        {"docker-content-digest", head->digest, sizeof(head->digest)},
        {"location", head->location, sizeof(head->location)},
        {"range", head->range, sizeof(head->range)},
        {"content-range", head->content_range, sizeof(head->content_range)},
    };

    if (take_status(head, line, n))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wanted); i++)
        (void)atoll_remote_take_header(line, n, wanted[i].name, wanted[i].out, wanted[i].cap);
    if (!atoll_image_is_digest(head->digest))
        head->digest[0] = '\0';
    append_challenge(head, line, n);
}

static int make_headers(const struct atoll_image_ask *ask, const char *auth,
                        struct curl_slist **ret, struct atoll_error *err)
{
    int r = atoll_remote_header(ret, err, "Expect:");

    if (r == 0 && auth)
        r = atoll_remote_header(ret, err, "Authorization: %s", auth);
    if (r == 0 && ask->accept)
        r = atoll_remote_header(ret, err, "Accept: %s", ask->accept);
    if (r == 0 && (ask->body || ask->part))
        r = atoll_remote_header(ret, err, "Content-Type: %s",
                                ask->type ? ask->type : "application/octet-stream");
    if (r == 0 && *ask->extra)
        r = atoll_remote_header(ret, err, "%s", ask->extra);
    return r;
}

/* Errors without an answer are the registry's, except those of memory. */
static int send_one(struct atoll_image_registry *r, const struct atoll_image_ask *ask,
                    const char *url, const char *auth, struct atoll_remote_answer *answer,
                    struct atoll_error *err)
{
    const struct atoll_sync_call call = {.deadline_ms = ask->call->deadline_ms,
                                         .cancel_fd = ask->call->cancel_fd};
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    struct atoll_remote_http *http;
    char name[ATOLL_IMAGE_REFERENCE_MAX];
    struct reader reader = {.part = ask->part ? *ask->part : (struct atoll_image_part){0},
                            .call = ask->call};
    const uint64_t length = reader.part.end - reader.part.at;
    const struct atoll_remote_request request = {
        .what = atoll_image_reference_short(ask->ref, name),
        .method = ask->method,
        .url = url,
        .body = ask->body,
        .body_len = ask->body_len,
        .read = ask->part ? read_part : NULL,
        .read_arg = &reader,
        .read_len = ask->part ? &length : NULL,
        .sink = ask->sink,
        .sink_arg = ask->sink_arg,
        .answer_max = ATOLL_IMAGE_DOCUMENT_MAX,
        .head = on_head,
        .head_arg = ask->head,
        .timeout_ms = ask->sink || ask->part       ? 0
                      : strcmp(ask->method, "PUT") ? DOCUMENT_MS
                                                   : COMMIT_MS,
        .stall_s = ask->sink || ask->part ? ATOLL_IMAGE_STALL_S : 0,
    };
    struct atoll_remote_request sent = request;
    int e = atoll_image_client_for(r, ask->place, url, ask->call, &http, err);

    *ask->head = (struct atoll_image_head){0};
    if (e == 0)
        e = make_headers(ask, auth, &headers, err);
    sent.headers = headers;
    if (e == 0)
        e = atoll_remote_http_ask(http, &call, &sent, answer, err);
    if (e < 0 && err->kind == ATOLL_ERR_PERMISSION_DENIED)
        atoll_advise(err, "Registries with private addresses need the operator's permission.");
    return e;
}

static bool is_redirect(const struct atoll_image_ask *ask)
{
    long s = ask->head->status;

    return (s == 301 || s == 302 || s == 303 || s == 307 || s == 308) && *ask->head->location &&
           !ask->body && !ask->part && strcmp(ask->method, "POST") != 0;
}

/* The login is for the registry alone, not for where it sends us. */
static bool is_own(const struct atoll_image_ask *ask, const char *url)
{
    size_t n = strlen(ask->place->origin);

    return strncasecmp(url, ask->place->origin, n) == 0 && (url[n] == '/' || url[n] == '\0');
}

static int follow(struct atoll_image_registry *r, struct atoll_image_ask *ask, const char *auth,
                  struct atoll_remote_answer *answer, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *url = malloc(ATOLL_IMAGE_URL_MAX);
    ATOLL_AUTOFREE char *next = malloc(ATOLL_IMAGE_URL_MAX);
    int e = url && next ? 0 : atoll_fail_errno(err, ENOMEM, "request to a registry");

    if (e == 0 && atoll_text_copy(url, ATOLL_IMAGE_URL_MAX, ask->url) < 0)
        e = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO, "an address is too long");
    for (unsigned hops = 0; e == 0; hops++) {
        const char *sent = is_own(ask, url) ? auth : NULL;
        char *swap = next;
        atoll_remote_answer_done(answer);
        *answer = (struct atoll_remote_answer){0};
        ask->own = is_own(ask, url);
        ask->sent_auth = sent != NULL;
        e = send_one(r, ask, url, sent, answer, err);
        if (e < 0 || !is_redirect(ask))
            break;
        if (hops == REDIRECTS_MAX || !atoll_image_url_join(url, ask->head->location, next))
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                              "the registry %.200s redirects %s", ask->place->host,
                              hops == REDIRECTS_MAX ? "too often" : "to what is not a URL");
        next = url;
        url = swap;
    }
    return e;
}

static int ask_authorized(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                          struct atoll_remote_answer *answer, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *auth = atoll_image_auth_known(r, ask);
    int e = follow(r, ask, auth, answer, err);

    /* Another host could name a place of its own, which would get the login. */
    if (e < 0 || ask->head->status != 401 || !*ask->head->challenge || !ask->own)
        return e;
    if (auth)
        atoll_image_auth_forget(r, ask);
    free(auth);
    auth = NULL;
    e = atoll_image_auth_get(r, ask, ask->head->challenge, &auth, err);
    if (e != 0)
        return ATOLL_MIN(e, 0);
    e = follow(r, ask, auth, answer, err);
    if (e == 0 && ask->head->status == 401)
        atoll_image_auth_forget(r, ask);
    return e;
}

bool atoll_image_is_passing(const struct atoll_image_call *call, const struct atoll_error *err)
{
    if ((uint32_t)err->retry_ms > RETRY_AFTER_MAX * 1000)
        return false;
    return err->kind == ATOLL_ERR_UNAVAILABLE || err->errnum == EAGAIN ||
           (err->kind == ATOLL_ERR_DEADLINE_EXCEEDED && atoll_clock_ms() < call->deadline_ms);
}

bool atoll_image_wait(const struct atoll_image_call *call, unsigned tries, uint32_t retry_after_s)
{
    struct pollfd cancel = {.fd = call->cancel_fd, .events = POLLIN};
    uint32_t random;
    int64_t until_ms, left_ms;

    atoll_rand_bytes(&random, sizeof(random));
    until_ms = atoll_clock_ms() + atoll_remote_delay_ms(tries, retry_after_s, random);
    if (until_ms + TRY_MS >= call->deadline_ms)
        return false;
    while ((left_ms = until_ms - atoll_clock_ms()) > 0)
        if (poll(&cancel, 1, (int)left_ms) > 0)
            return false;
    if (atoll_clock_ms() + TRY_MS / 2 >= call->deadline_ms)
        return false;
    atoll_metric_note(ATOLL_METRIC_REMOTE_RETRIES, "registry", 1);
    return true;
}

int atoll_image_ask(struct atoll_image_registry *r, struct atoll_image_ask *ask,
                    struct atoll_buf *ret_body, struct atoll_error *err)
{
    struct atoll_remote_answer answer = {0};
    struct atoll_error first = {0};
    int e;

    for (unsigned tries = 1;; tries++) {
        *err = first;
        e = ask_authorized(r, ask, &answer, err);
        if (e >= 0 && ask->head->status >= 400)
            e = atoll_image_refused(ask, ask->head->status,
                                    (const char *)atoll_buf_head(&answer.body),
                                    atoll_buf_size(&answer.body), answer.retry_after_s, err);
        if (e >= 0 || ask->once || tries >= ATOLL_IMAGE_TRIES ||
            !atoll_image_is_passing(ask->call, err) ||
            !atoll_image_wait(ask->call, tries, (uint32_t)err->retry_ms / 1000))
            break;
    }
    *ret_body = answer.body;
    return ATOLL_MIN(e, 0);
}
