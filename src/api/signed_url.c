#include "api/signed_url.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "api/api_internal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/text.h"

#define SECRET_FILE "url-secret"

int atoll_signed_url_load(uint8_t *secret, int state_fd, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd =
        openat(state_fd, SECRET_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    int r;

    if (fd < 0 && errno != ENOENT)
        return atoll_fail_errno(err, errno, "opening the file " SECRET_FILE);
    if (fd < 0) {
        atoll_rand_bytes(secret, ATOLL_URL_SECRET_BYTES);
        r = atoll_fd_replace_file(state_fd, SECRET_FILE, secret, ATOLL_URL_SECRET_BYTES);
        return r < 0 ? atoll_fail_errno(err, -r, "writing the file " SECRET_FILE) : 0;
    }
    if (fstat(fd, &st) < 0)
        return atoll_fail_errno(err, errno, "reading the file " SECRET_FILE);
    if (!S_ISREG(st.st_mode) || st.st_mode & 077 ||
        read(fd, secret, ATOLL_URL_SECRET_BYTES) != ATOLL_URL_SECRET_BYTES)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                          "the file " SECRET_FILE " in the state directory is damaged or open to "
                          "other users; remove it, and signed URLs made so far stop working");
    return 0;
}

/* Each part is preceded by its length, so that different URLs give different text. */
static void add(struct atoll_buf *text, const char *part)
{
    if (atoll_buf_appendf(text, "%zu:%s\n", strlen(part), part) < 0)
        abort(); /* all parts are bounded by the maximum size of a request's head */
}

void atoll_signed_url_sign(const struct atoll_api *api, const struct atoll_signed_url *url,
                           char *out)
{
    uint8_t mac[EVP_MAX_MD_SIZE];
    struct atoll_buf text;
    char expires[24];

    (void)snprintf(expires, sizeof(expires), "%llu", (unsigned long long)url->expires_unix_s);
    atoll_buf_init(&text, (size_t)64 * 1024);
    add(&text, "atoll file url 1");
    add(&text, atoll_http_method_name(url->method));
    add(&text, url->sandbox_id);
    add(&text, url->path);
    add(&text, url->user);
    add(&text, url->mode);
    add(&text, expires);
    if (!HMAC(EVP_sha256(), api->config.url_secret, ATOLL_URL_SECRET_BYTES, atoll_buf_head(&text),
              atoll_buf_size(&text), mac, NULL))
        abort();
    atoll_buf_done(&text);
    for (size_t i = 0; i < ATOLL_SIGNATURE_LEN / 2; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", mac[i]);
}

static const char *query_or_empty(const struct atoll_api_call *call, const char *name)
{
    const char *value = atoll_http_query(call->req, name);
    return value ? value : "";
}

int atoll_signed_url_check(struct atoll_api_call *call, struct atoll_error *err)
{
    struct atoll_signed_url url;
    char right[ATOLL_SIGNATURE_LEN + 1];
    const char *shown;
    bool matches;

    if (!call->route || strcmp(call->route->path, ATOLL_SIGNED_PATH) != 0 ||
        !(shown = atoll_http_query(call->req, "signature")))
        return 0;
    url = (struct atoll_signed_url){
        .method = call->route->method,
        .sandbox_id = call->params.id,
        .path = query_or_empty(call, "path"),
        .user = query_or_empty(call, "user"),
        .mode = query_or_empty(call, "mode"),
    };
    if (atoll_text_u64(query_or_empty(call, "expires"), 0, INT64_MAX / 1000, &url.expires_unix_s) <
        0)
        url.expires_unix_s = 0;
    atoll_signed_url_sign(call->api, &url, right);
    matches = strlen(shown) == ATOLL_SIGNATURE_LEN &&
              CRYPTO_memcmp(shown, right, ATOLL_SIGNATURE_LEN) == 0;
    if (!matches)
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES,
                          "the signature of this URL is not valid");
    if ((int64_t)url.expires_unix_s * 1000 < atoll_clock_unix_ms())
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EKEYEXPIRED, "this URL has expired");
    /* As the creator of the URL did. */
    atoll_api_act_for_owner(call, call->route->scope, "signed-url");
    return 1;
}
