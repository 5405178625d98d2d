/*
 * Files for the COPY steps of a template. A client asks for a link by the hash of the files, and
 * sends an archive to the link if the daemon does not have the files. The link is a token for one
 * hash of one tenant: the upload has no key.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "api/e2b/template_steps.h"
#include "api/kit/context_receive.h"
#include "base/clock.h"
#include "base/text.h"

#define LINK_S 3600
#define PURPOSE "e2b template files"
#define CONTEXT_NAME_MAX (sizeof(ATOLL_E2B_FILES) + ATOLL_E2B_HASH_LEN)

static void token_of(const struct atoll_api *api, const char *tenant, const char *hash,
                     uint64_t expires_unix_s, char out[ATOLL_TOKEN_LEN + 1])
{
    char name[200];

    (void)snprintf(name, sizeof(name), "%.64s/%.64s/%llu", tenant, hash,
                   (unsigned long long)expires_unix_s);
    atoll_token_make(api, PURPOSE, name, out);
}

/* The scheme and host by which the client reaches the daemon. */
static void origin_of(const struct atoll_api_call *call, char out[300])
{
    const char *host = atoll_http_header(call->req, "host");
    const char *before = atoll_http_header(call->req, "x-forwarded-proto");
    bool tls = atoll_http_peer(call->req)->is_tls || (before && strcmp(before, "https") == 0);

    (void)snprintf(out, 300, "%s://%.256s", tls ? "https" : "http",
                   host && *host ? host : "localhost");
}

static int check_hash(const char *hash, struct atoll_error *err)
{
    if (hash && atoll_e2b_hash_is_valid(hash))
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "the hash of files has %d hexadecimal digits", ATOLL_E2B_HASH_LEN);
}

void atoll_e2b_template_files(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    const char *hash = call->params.path, *tenant = call->caller.tenant;
    uint64_t expires = (uint64_t)atoll_clock_unix_ms() / 1000 + LINK_S;
    char origin[300], token[ATOLL_TOKEN_LEN + 1], name[CONTEXT_NAME_MAX], url[1400];
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (check_hash(hash, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    (void)snprintf(name, sizeof(name), ATOLL_E2B_FILES "%s", hash);
    origin_of(call, origin);
    token_of(call->api, tenant, hash, expires, token);
    (void)snprintf(url, sizeof(url), "%s/templates/%s/files/%s?tenant=%s&expires=%llu&token=%s",
                   origin, call->params.template, hash, tenant, (unsigned long long)expires, token);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_bool(&out, "present", atoll_context_find(call->engine, tenant, name));
    atoll_json_text(&out, "url", url);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 201, &out);
}

/* Uploading. */

static void stored(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        atoll_api_reply_empty(call, 200);
}

/* Fills call->caller with the tenant of the link. */
static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    const char *tenant = atoll_http_query(call->req, "tenant");
    const char *until = atoll_http_query(call->req, "expires");
    const char *shown = atoll_http_query(call->req, "token");
    char token[ATOLL_TOKEN_LEN + 1];
    uint64_t expires = 0;

    if (!tenant || !atoll_text_is_name(tenant) || !until ||
        atoll_text_u64(until, 0, INT64_MAX / 1000, &expires) < 0)
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES, "this is not a link for uploads");
    token_of(call->api, tenant, call->params.path, expires, token);
    if (!atoll_token_fits(shown, token))
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES, "this is not a link for uploads");
    if ((int64_t)expires * 1000 < atoll_clock_unix_ms())
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EKEYEXPIRED, "the link has expired");
    (void)snprintf(call->caller.tenant, sizeof(call->caller.tenant), "%s", tenant);
    call->caller.scope = ATOLL_SCOPE_WRITE;
    return 0;
}

void atoll_e2b_template_upload(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    char name[CONTEXT_NAME_MAX];
    struct atoll_error error;
    int r = check_hash(call->params.path, &error);

    if (r == 0)
        r = admit(call, &error);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    (void)snprintf(name, sizeof(name), ATOLL_E2B_FILES "%s", call->params.path);
    atoll_context_receive(call, name, NULL, stored);
}
