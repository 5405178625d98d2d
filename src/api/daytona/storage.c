/*
 * Object storage: credentials, and objects in one piece.
 */
#include "api/daytona/storage.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/context_receive.h"
#include "base/clock.h"
#include "base/text.h"

#define ACCESS_S 3600
#define PURPOSE "daytona object storage"
#define XML "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define TOKEN_HEADER "x-amz-security-token"

/* Credentials: EXPIRES.TOKEN.KEY.TENANT */

static void token_of(const struct atoll_api *api, const char *tenant, const char *key_id,
                     uint64_t expires_unix_s, char out[ATOLL_TOKEN_LEN + 1])
{
    char name[200];

    (void)snprintf(name, sizeof(name), "%.64s/%.32s/%llu", tenant, key_id,
                   (unsigned long long)expires_unix_s);
    atoll_token_make(api, PURPOSE, name, out);
}

void atoll_daytona_push_access(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    uint64_t expires = (uint64_t)atoll_clock_unix_ms() / 1000 + ACCESS_S;
    char origin[ATOLL_ORIGIN_MAX], url[ATOLL_ORIGIN_MAX + 64], token[ATOLL_TOKEN_LEN + 1];
    char session[ATOLL_TOKEN_LEN + 160];
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_origin(call->api, call->req, origin);
    (void)snprintf(url, sizeof(url), "%s" ATOLL_DAYTONA_STORAGE, origin);
    token_of(call->api, call->caller.tenant, call->caller.key_id, expires, token);
    (void)snprintf(session, sizeof(session), "%llu.%s.%s.%s", (unsigned long long)expires, token,
                   call->caller.key_id, call->caller.tenant);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "accessKey", "session-token");
    atoll_json_text(&out, "secret", "session-token");
    atoll_json_text(&out, "sessionToken", session);
    atoll_json_text(&out, "storageUrl", url);
    atoll_json_text(&out, "organizationId", call->caller.tenant);
    atoll_json_text(&out, "bucket", ATOLL_DAYTONA_BUCKET);
    atoll_json_text(&out, "region", ATOLL_DAYTONA_REGION);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static bool key_exists(const struct atoll_api *api, const char *id)
{
    struct atoll_key_view key;

    for (size_t pos = 0; atoll_access_next(api->config.auth.access, &pos, &key);)
        if (strcmp(key.id, id) == 0)
            return true;
    return !*id; /* push access was given to a program of this host, without a key */
}

/* Fills call->caller with what the token is for. */
static bool take_token(struct atoll_api_call *call, const char *shown)
{
    char text[ATOLL_TOKEN_LEN + 160], token[ATOLL_TOKEN_LEN + 1];
    char *parts[4] = {text};
    uint64_t expires = 0;

    if (strlen(shown) >= sizeof(text))
        return false;
    (void)snprintf(text, sizeof(text), "%s", shown);
    for (size_t i = 1; i < ATOLL_ARRAY_LEN(parts); i++) {
        parts[i] = strchr(parts[i - 1], '.');
        if (!parts[i])
            return false;
        *parts[i]++ = '\0';
    }
    if (atoll_text_u64(parts[0], 0, INT64_MAX / 1000, &expires) < 0 || strlen(parts[2]) > 32 ||
        !atoll_text_is_name(parts[3]))
        return false;
    token_of(call->api, parts[3], parts[2], expires, token);
    if (!atoll_token_fits(parts[1], token) || (int64_t)expires * 1000 < atoll_clock_unix_ms() ||
        !key_exists(call->api, parts[2]))
        return false;
    (void)snprintf(call->caller.tenant, sizeof(call->caller.tenant), "%s", parts[3]);
    (void)snprintf(call->caller.key_id, sizeof(call->caller.key_id), "%s", parts[2]);
    call->caller.scope = ATOLL_SCOPE_WRITE;
    return true;
}

/* Keys of Atoll are accepted, too. */
static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    const char *shown = atoll_http_header(call->req, TOKEN_HEADER);

    if (!shown)
        return atoll_api_authorize(call, ATOLL_SCOPE_WRITE, err);
    if (take_token(call, shown))
        return 0;
    return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES,
                      "the session token is not valid any more: ask for push access again");
}

/* Answers. */

static void reply(struct atoll_api_call *call, int status, struct atoll_buf *text)
{
    atoll_api_reply_text(call, status, "application/xml", atoll_buf_str(text),
                         atoll_buf_size(text));
    atoll_buf_done(text);
}

static void append_escaped(struct atoll_buf *out, const char *text)
{
    for (; *text; text++) {
        const char *name = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : "&amp;";
        if (strchr("<>&", *text))
            (void)!atoll_buf_append(out, name, strlen(name));
        else
            (void)!atoll_buf_append(out, (uint8_t)*text < ' ' ? " " : text, 1);
    }
}

void atoll_daytona_storage_refuse(struct atoll_api_call *call, int status, const char *code,
                                  const char *text)
{
    struct atoll_buf out;

    atoll_buf_init(&out, 8192);
    (void)!atoll_buf_appendf(&out, XML "<Error><Code>%s</Code><Message>", code);
    append_escaped(&out, text);
    (void)!atoll_buf_appendf(&out, "</Message><RequestId>%s</RequestId></Error>", call->request_id);
    reply(call, status, &out);
}

static void fail(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    static const struct {
        int status;
        const char *code;
    } rows[] = {{400, "InvalidRequest"},     {401, "AccessDenied"},     {403, "AccessDenied"},
                {404, "NoSuchKey"},          {405, "MethodNotAllowed"}, {413, "EntityTooLarge"},
                {429, "SlowDown"},           {501, "NotImplemented"},   {503, "ServiceUnavailable"},
                {507, "InsufficientStorage"}};
    const char *code = "InternalError";

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            code = rows[i].code;
    atoll_daytona_storage_refuse(call, status, code,
                                 status == 500 ? "internal error of the daemon" : error->text);
}

/* Objects. */

/* TENANT/HASH/REST */
static bool split(const struct atoll_api_call *call, const char *path, const char *rest,
                  char out[ATOLL_DAYTONA_HASH_MAX + 1])
{
    size_t n = strlen(call->caller.tenant), m;

    if (strncmp(path, call->caller.tenant, n) != 0 || path[n] != '/')
        return false;
    path += n + 1;
    m = strspn(path, "0123456789abcdef");
    if (m == 0 || m > ATOLL_DAYTONA_HASH_MAX || strcmp(path + m, rest) != 0)
        return false;
    (void)snprintf(out, ATOLL_DAYTONA_HASH_MAX + 1, "%.*s", (int)m, path);
    return true;
}

bool atoll_daytona_storage_hash(struct atoll_api_call *call, char out[ATOLL_DAYTONA_HASH_MAX + 1])
{
    if (call->params.path && split(call, call->params.path, "/context.tar", out))
        return true;
    atoll_daytona_storage_refuse(call, 400, "InvalidArgument",
                                 "objects are named ORGANIZATION/HASH/context.tar, with your own "
                                 "organization");
    return false;
}

static void list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                 size_t n ATOLL_UNUSED)
{
    const char *prefix = atoll_http_query(call->req, "prefix");
    char hash[ATOLL_DAYTONA_HASH_MAX + 1];
    struct atoll_buf out;
    bool found;

    if (!prefix || !split(call, prefix, "/", hash)) {
        atoll_daytona_storage_refuse(call, 400, "InvalidArgument",
                                     "the prefix of a list must be ORGANIZATION/HASH/, with your "
                                     "own organization");
        return;
    }
    found = atoll_context_find(call->engine, call->caller.tenant, hash);
    atoll_buf_init(&out, 8192);
    (void)!atoll_buf_appendf(&out,
                             XML "<ListBucketResult><Name>" ATOLL_DAYTONA_BUCKET
                                 "</Name><Prefix>%s</Prefix><MaxKeys>1000</MaxKeys>"
                                 "<IsTruncated>false</IsTruncated><KeyCount>%d</KeyCount>",
                             prefix, found);
    if (found)
        (void)!atoll_buf_appendf(&out,
                                 "<Contents><Key>%scontext.tar</Key><ETag>\"%s\"</ETag>"
                                 "<Size>0</Size></Contents>",
                                 prefix, hash);
    (void)!atoll_buf_appendf(&out, "</ListBucketResult>");
    reply(call, 200, &out);
}

/* Sets the header ETag. */
static void set_tag(const struct atoll_api_call *call, const char *hash)
{
    char tag[ATOLL_DAYTONA_HASH_MAX + 3];

    (void)snprintf(tag, sizeof(tag), "\"%s\"", hash);
    if (call->req)
        (void)atoll_http_set_header(call->req, "ETag", tag);
}

static void get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                size_t n ATOLL_UNUSED)
{
    char hash[ATOLL_DAYTONA_HASH_MAX + 1];

    if (!atoll_daytona_storage_hash(call, hash))
        return;
    if (!atoll_context_find(call->engine, call->caller.tenant, hash)) {
        atoll_daytona_storage_refuse(call, 404, "NoSuchKey", "there is no such object");
    } else if (atoll_http_method(call->req) != ATOLL_HEAD) {
        atoll_daytona_storage_refuse(call, 405, "MethodNotAllowed", "objects cannot be read");
    } else {
        set_tag(call, hash);
        atoll_api_reply_empty(call, 200);
    }
}

static void stored(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    set_tag(call, "stored");
    atoll_api_reply_empty(call, 200);
}

/* Whether the body is in chunks of S3's own, which are not understood here. */
static bool is_chunked(const struct atoll_api_call *call)
{
    const char *encoding = atoll_http_header(call->req, "content-encoding");
    const char *digest = atoll_http_header(call->req, "x-amz-content-sha256");

    return (encoding && strstr(encoding, "aws-chunked")) ||
           (digest && strncmp(digest, "STREAMING-", 10) == 0);
}

static void put(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                size_t n ATOLL_UNUSED)
{
    char hash[ATOLL_DAYTONA_HASH_MAX + 1];

    if (!atoll_daytona_storage_hash(call, hash))
        return;
    if (is_chunked(call))
        atoll_daytona_storage_refuse(call, 501, "NotImplemented",
                                     "bodies of the encoding aws-chunked are not accepted");
    else if (atoll_http_query(call->req, "uploadId"))
        atoll_daytona_parts_write(call);
    else
        atoll_context_receive(call, hash, NULL, stored);
}

static void post(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    char hash[ATOLL_DAYTONA_HASH_MAX + 1];

    if (!atoll_daytona_storage_hash(call, hash))
        return;
    if (atoll_http_query(call->req, "uploads"))
        atoll_daytona_parts_open(call, hash);
    else if (atoll_http_query(call->req, "uploadId"))
        atoll_daytona_parts_finish(call, body, n);
    else
        atoll_daytona_storage_refuse(call, 400, "InvalidRequest",
                                     "the query must have uploads or uploadId");
}

static void remove_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    char hash[ATOLL_DAYTONA_HASH_MAX + 1];

    if (!atoll_daytona_storage_hash(call, hash))
        return;
    if (atoll_http_query(call->req, "uploadId"))
        atoll_daytona_parts_abort(call);
    else
        atoll_daytona_storage_refuse(call, 501, "NotImplemented",
                                     "objects go by themselves when they are not used");
}

#define BUCKET ATOLL_DAYTONA_STORAGE "/" ATOLL_DAYTONA_BUCKET
#define OBJECT BUCKET "/{path}"

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_GET,    BUCKET, ATOLL_SCOPE_WRITE, ATOLL_BODY_NONE,   list, NULL},
    {ATOLL_GET,    BUCKET "/", ATOLL_SCOPE_WRITE, ATOLL_BODY_NONE, list, NULL},
    {ATOLL_GET,    OBJECT, ATOLL_SCOPE_WRITE, ATOLL_BODY_NONE,   get, NULL},
    {ATOLL_PUT,    OBJECT, ATOLL_SCOPE_WRITE, ATOLL_BODY_STREAM, put, NULL},
    {ATOLL_POST,   OBJECT, ATOLL_SCOPE_WRITE, ATOLL_BODY_JSON,   post, NULL},
    {ATOLL_DELETE, OBJECT, ATOLL_SCOPE_WRITE, ATOLL_BODY_NONE,   remove_upload, NULL},
};
/* clang-format on */

static const struct atoll_protocol protocol = {.fail = fail, .admit = admit, .takes_slashes = true};

const struct atoll_routes atoll_daytona_storage_routes = {rows, ATOLL_ARRAY_LEN(rows), &protocol,
                                                          NULL, 0};
