/* POST …/files/sign: returns a signed URL, which gives access to one file without a key. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/fields.h"
#include "api/rest/file/files.h"
#include "api/rest/rest_internal.h"
#include "api/signed_url.h"
#include "base/clock.h"
#include "net/url.h"

#define WEEK_S (7.0 * 24 * 3600)
#define DEFAULT_S 3600
#define URL_MAX ((size_t)32 * 1024)

struct sign_request {
    const char *path, *user, *method, *mode;
    uint32_t expires_s;
};

#define AT(member) offsetof(struct sign_request, member)
static const struct atoll_field sign_fields[] = {
    {"path", ATOLL_FIELD_STRING, AT(path), 1, ATOLL_REST_PATH_MAX, NULL, 0},
    {"user", ATOLL_FIELD_STRING, AT(user), 0, 64, NULL, 0},
    {"method", ATOLL_FIELD_STRING, AT(method), 3, 3, NULL, 0},
    {"mode", ATOLL_FIELD_STRING, AT(mode), 3, 5, NULL, 0},
    {"expiresSeconds", ATOLL_FIELD_U32, AT(expires_s), 1, WEEK_S, NULL, 0},
    {0},
};
#undef AT

static int check(const struct atoll_api_call *call, const struct sign_request *r,
                 struct atoll_signed_url *ret, struct atoll_error *err)
{
    uint32_t mode;

    if (!r->path)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "path is missing: absolute, or below the user's home");
    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "PUT") != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "method must be \"GET\" or \"PUT\" (got \"%.3s\")", r->method);
    if (*r->mode && atoll_api_parse_mode(r->mode, &mode) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "mode must be permission bits in octal, such as \"0644\"");
    if (*r->mode && *r->method == 'G')
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "mode applies to PUT only; omit it for GET");
    *ret = (struct atoll_signed_url){
        .method = *r->method == 'G' ? ATOLL_GET : ATOLL_PUT,
        .sandbox_id = call->params.id,
        .path = r->path,
        .user = r->user,
        .mode = r->mode,
        .expires_unix_s = (uint64_t)atoll_clock_unix_ms() / 1000 + r->expires_s,
    };
    return 0;
}

static int add_param(struct atoll_buf *out, const char *name, const char *value)
{
    int r = *value ? atoll_buf_appendf(out, "&%s=", name) : 0;
    return r < 0 || !*value ? r : atoll_url_encode(out, value, false);
}

static int write_url(struct atoll_buf *out, const struct atoll_signed_url *url,
                     const char *signature)
{
    int r = atoll_buf_appendf(out, "/api/sandboxes/%s/files?expires=%llu&signature=%s",
                              url->sandbox_id, (unsigned long long)url->expires_unix_s, signature);

    if (r == 0)
        r = add_param(out, "path", url->path);
    if (r == 0)
        r = add_param(out, "user", url->user);
    return r < 0 ? r : add_param(out, "mode", url->mode);
}

static void reply_url(struct atoll_api_call *call, const struct atoll_signed_url *url)
{
    char signature[ATOLL_SIGNATURE_LEN + 1];
    struct atoll_buf text, buf;
    struct atoll_json_out out;

    atoll_signed_url_sign(call->api, url, signature);
    atoll_buf_init(&text, URL_MAX);
    atoll_api_reply_init(&buf, &out);
    out.error = write_url(&text, url, signature);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "url", atoll_buf_str(&text));
    atoll_json_text(&out, "method", atoll_http_method_name(url->method));
    atoll_json_time(&out, "expires_at", (int64_t)url->expires_unix_s * 1000);
    atoll_json_close(&out, '}');
    atoll_buf_done(&text);
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_file_sign(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct sign_request request = {.user = "", .method = "GET", .mode = "", .expires_s = DEFAULT_S};
    struct atoll_signed_url url;
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, sign_fields, &request, &error);

    if (r == 0)
        r = check(call, &request, &url, &error);
    if (r == 0 && !atoll_rest_find_sandbox(call, &error))
        r = -ENOENT;
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply_url(call, &url);
    atoll_body_done(&body);
}
