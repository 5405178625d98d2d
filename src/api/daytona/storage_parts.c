/*
 * Uploads in parts (storage.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/storage.h"
#include "api/kit/body_pump.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/build/build.h"

#define PARTS_MAX 10000
#define IDLE_MS INT64_C(60000)
#define ID_LEN 32
#define XML "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"

struct upload {
    struct atoll_list node;
    struct atoll_daytona *daytona; /* NULL: the daemon ends */
    char id[ID_LEN + 1], tenant[65], hash[ATOLL_DAYTONA_HASH_MAX + 1];
    struct atoll_context_upload *context; /* owned; NULL until it is open */
    uint64_t next;                        /* number of the part that is written now or next */
    uint64_t written;        /* bytes of that part, also of an attempt that broke off */
    struct part *busy;       /* being received; or NULL */
    struct atoll_list early; /* of struct part */
    size_t early_count;
    struct atoll_timer idle;
    struct atoll_api_call *opener; /* while it is opened */
    bool aborted;                  /* while a part is being received */
};

struct part {
    struct atoll_list node; /* of `early` */
    struct upload *upload;
    struct atoll_api_call *call;
    struct atoll_body_pump pump;
    uint64_t number, seen; /* seen: bytes of this attempt */
    bool is_repeated;      /* it has been written already */
};

static void start_parts(struct upload *u);

/* Ends an upload that is not being written to. */
static void upload_end(struct upload *u, const char *why)
{
    atoll_timer_cancel(&u->idle);
    atoll_list_remove(&u->node);
    ATOLL_LIST_FOREACH (&u->early, node) {
        struct part *p = ATOLL_CONTAINER_OF(node, struct part, node);
        p->call->on_gone = NULL;
        atoll_list_remove(&p->node);
        atoll_daytona_storage_refuse(p->call, 404, "NoSuchUpload", why);
        free(p);
    }
    if (u->daytona)
        atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("uploads"), -1);
    atoll_context_drop(u->context);
    free(u);
}

static void on_idle(void *arg)
{
    upload_end(arg, "the upload had to wait too long for a part");
}

/* Awaits the next request while no part is being received. */
static void wait_idle(struct upload *u)
{
    if (u->busy || !u->daytona)
        atoll_timer_cancel(&u->idle);
    else
        atoll_timer_set(&u->idle, u->daytona->api->config.loop, IDLE_MS, on_idle, u);
}

static struct upload *find(struct atoll_api_call *call)
{
    const char *id = atoll_http_query(call->req, "uploadId");
    char hash[ATOLL_DAYTONA_HASH_MAX + 1];

    if (!atoll_daytona_storage_hash(call, hash))
        return NULL;
    ATOLL_LIST_FOREACH (&atoll_daytona_of(call->api)->uploads, node) {
        struct upload *u = ATOLL_CONTAINER_OF(node, struct upload, node);
        if (u->context && !u->aborted && strcmp(u->id, id) == 0 && strcmp(u->hash, hash) == 0 &&
            strcmp(u->tenant, call->caller.tenant) == 0)
            return u;
    }
    atoll_daytona_storage_refuse(call, 404, "NoSuchUpload",
                                 "there is no such upload; it may have ended with the daemon");
    return NULL;
}

/* Opening. */

static void opened(void *arg, struct atoll_context_upload *context, const struct atoll_error *error)
{
    struct upload *u = arg;
    struct atoll_api_call *call = ATOLL_TAKE_PTR(u->opener);
    struct atoll_buf out;

    u->context = context;
    if (error || !u->daytona) {
        struct atoll_error ended;
        (void)atoll_fail(&ended, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon ends");
        atoll_api_fail(call, error ? error : &ended);
        upload_end(u, "");
        return;
    }
    wait_idle(u);
    atoll_buf_init(&out, 1024);
    (void)!atoll_buf_appendf(&out,
                             XML "<InitiateMultipartUploadResult><Bucket>" ATOLL_DAYTONA_BUCKET
                                 "</Bucket><Key>%s/%s/context.tar</Key><UploadId>%s</UploadId>"
                                 "</InitiateMultipartUploadResult>",
                             u->tenant, u->hash, u->id);
    atoll_api_reply_text(call, 200, "application/xml", atoll_buf_str(&out), atoll_buf_size(&out));
    atoll_buf_done(&out);
}

void atoll_daytona_parts_open(struct atoll_api_call *call, const char *hash)
{
    struct atoll_daytona *daytona = atoll_daytona_of(call->api);
    size_t count = 0, own = 0;
    struct upload *u;

    ATOLL_LIST_FOREACH (&daytona->uploads, node) {
        count++;
        own +=
            strcmp(ATOLL_CONTAINER_OF(node, struct upload, node)->tenant, call->caller.tenant) == 0;
    }
    if (count >= ATOLL_DAYTONA_UPLOADS_MAX || own >= ATOLL_DAYTONA_TENANT_UPLOADS_MAX) {
        atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("uploads"), 1);
        atoll_daytona_storage_refuse(call, 429, "SlowDown", "too many uploads are in progress");
        return;
    }
    u = atoll_api_alloc(sizeof(*u));
    u->daytona = daytona;
    u->next = 1;
    u->opener = call;
    atoll_list_init(&u->early);
    atoll_rand_id(u->id, ID_LEN);
    (void)snprintf(u->tenant, sizeof(u->tenant), "%s", call->caller.tenant);
    (void)snprintf(u->hash, sizeof(u->hash), "%s", hash);
    atoll_list_push_back(&daytona->uploads, &u->node);
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("uploads"), 1);
    atoll_context_open(call->engine, call->caller.tenant, hash, opened, u);
}

/* Writing. */

static void write_part(void *arg, const uint8_t *bytes, size_t n, atoll_done_fn *done,
                       void *done_arg)
{
    struct part *p = arg;
    struct upload *u = p->upload;
    uint64_t before = p->seen;
    size_t skipped;
    struct atoll_error error;

    p->seen += n;
    if (p->is_repeated || p->seen <= u->written) {
        done(done_arg, NULL);
        return;
    }
    if (u->aborted) {
        (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "the upload was aborted");
        done(done_arg, &error);
        return;
    }
    skipped = before < u->written ? (size_t)(u->written - before) : 0;
    u->written = p->seen;
    atoll_context_write(u->context, bytes + skipped, n - skipped, done, done_arg);
}

static void reply_part(struct part *p)
{
    char tag[64];

    (void)snprintf(tag, sizeof(tag), "\"part-%llu\"", (unsigned long long)p->number);
    if (p->call->req)
        (void)atoll_http_set_header(p->call->req, "ETag", tag);
    atoll_api_reply_empty(p->call, 200);
}

static void repeated(void *arg, const struct atoll_error *error)
{
    struct part *p = arg;

    if (error)
        atoll_api_fail(p->call, error);
    else
        reply_part(p);
    free(p);
}

static void received(void *arg, const struct atoll_error *error)
{
    struct part *p = arg;
    struct upload *u = p->upload;
    bool broken = error && error->kind != ATOLL_ERR_CANCELED;

    u->busy = NULL;
    if (!error) {
        u->next++;
        u->written = 0;
        reply_part(p);
    } else {
        atoll_api_fail(p->call, error);
    }
    if (broken || u->aborted || !u->daytona)
        upload_end(u, broken ? error->text : "the upload was aborted");
    else
        start_parts(u);
    free(p);
}

static void begin(struct upload *u, struct part *p)
{
    p->is_repeated = p->number < u->next;
    if (!p->is_repeated)
        u->busy = p;
    wait_idle(u);
    atoll_body_pump_start(&p->pump, p->call, write_part, p->is_repeated ? repeated : received, p);
}

/* Starts what does not have to wait any more. */
static void start_parts(struct upload *u)
{
    wait_idle(u);
    ATOLL_LIST_FOREACH (&u->early, node) {
        struct part *p = ATOLL_CONTAINER_OF(node, struct part, node);
        if (p->number > u->next || (p->number == u->next && u->busy))
            continue;
        atoll_list_remove(&p->node);
        u->early_count--;
        begin(u, p);
    }
}

static void on_gone(struct atoll_api_call *call)
{
    struct part *p = call->state;

    atoll_list_remove(&p->node);
    p->upload->early_count--;
    free(p);
    atoll_api_drop(call);
}

void atoll_daytona_parts_write(struct atoll_api_call *call)
{
    const char *text = atoll_http_query(call->req, "partNumber");
    struct upload *u = find(call);
    struct part *p;
    uint64_t number;

    if (!u)
        return;
    if (!text || atoll_text_u64(text, 1, PARTS_MAX, &number) < 0) {
        atoll_daytona_storage_refuse(call, 400, "InvalidArgument",
                                     "partNumber must be from 1 to 10000");
        return;
    }
    if (u->early_count >= ATOLL_DAYTONA_EARLY_MAX) {
        atoll_daytona_storage_refuse(call, 503, "SlowDown",
                                     "too many parts are sent at the same time");
        return;
    }
    p = atoll_api_alloc(sizeof(*p));
    p->upload = u;
    p->call = call;
    p->number = number;
    call->state = p;
    call->on_gone = on_gone;
    atoll_list_push_back(&u->early, &p->node);
    u->early_count++;
    start_parts(u);
}

/* Ending. */

static size_t count_parts(const uint8_t *body, size_t n)
{
    static const char word[] = "<PartNumber>";
    const uint8_t *end = body + n;
    size_t count = 0;

    while ((body = memmem(body, (size_t)(end - body), word, sizeof(word) - 1))) {
        count++;
        body += sizeof(word) - 1;
    }
    return count;
}

static void finished(void *arg, const struct atoll_error *error)
{
    static const char text[] = XML "<CompleteMultipartUploadResult><Bucket>" ATOLL_DAYTONA_BUCKET
                                   "</Bucket><ETag>\"stored\"</ETag>"
                                   "</CompleteMultipartUploadResult>";

    if (error)
        atoll_api_fail(arg, error);
    else
        atoll_api_reply_text(arg, 200, "application/xml", text, sizeof(text) - 1);
}

void atoll_daytona_parts_finish(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct upload *u = find(call);
    struct atoll_context_upload *context;

    if (!u)
        return;
    if (u->busy || u->early_count > 0 || u->written > 0 || count_parts(body, n) != u->next - 1) {
        atoll_daytona_storage_refuse(call, 400, "InvalidPart",
                                     "the list of parts is not that of the parts that have come");
        return;
    }
    context = ATOLL_TAKE_PTR(u->context);
    upload_end(u, "");
    atoll_context_finish(context, NULL, finished, call);
}

void atoll_daytona_parts_abort(struct atoll_api_call *call)
{
    struct upload *u = find(call);

    if (!u)
        return;
    if (u->busy)
        u->aborted = true;
    else
        upload_end(u, "the upload was aborted");
    atoll_api_reply_empty(call, 204);
}

void atoll_daytona_parts_done(struct atoll_daytona *daytona)
{
    ATOLL_LIST_FOREACH (&daytona->uploads, node) {
        struct upload *u = ATOLL_CONTAINER_OF(node, struct upload, node);
        atoll_list_remove(&u->node);
        u->daytona = NULL;
        if (u->busy || u->opener)
            atoll_timer_cancel(&u->idle); /* ends when the engine calls back */
        else
            upload_end(u, "");
    }
}
