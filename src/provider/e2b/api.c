/*
 * Requests to the service's API, and the URLs of its sandboxes.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "provider/e2b/e2b_internal.h"

int atoll_e2b_api(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                  const char *what, const char *method, const char *path, json_t *body,
                  struct atoll_e2b_answer *ret, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = body ? atoll_e2b_dump(body) : NULL, *url = NULL;
    char id[96], trace[ATOLL_TRACE_TEXT_MAX], parent[96];
    /* Headers of this request, before those of all requests; the list does not own them. */
    struct curl_slist first = {.data = id, .next = p->api_headers}, second = {.data = parent};
    struct atoll_e2b_ask ask = {
        .method = method, .ca = p->ca_file, .headers = p->api_headers, .body = text};

    *ret = (struct atoll_e2b_answer){0};
    if (asprintf(&url, "%s%s", p->api_url, path) < 0) {
        url = NULL;
        return atoll_fail_errno(err, ENOMEM, "%s", what);
    }
    if (body && !text)
        return atoll_fail_errno(err, ENOMEM, "%s", what);
    ask.url = url;
    ask.body_len = text ? strlen(text) : 0;
    if (call->origin.request_id[0]) {
        (void)snprintf(id, sizeof(id), "X-Request-Id: %s", call->origin.request_id);
        ask.headers = &first;
    }
    if (call->origin.trace.id[0]) {
        (void)snprintf(parent, sizeof(parent), "traceparent: %s",
                       atoll_trace_format(&call->origin.trace, trace));
        second.next = (struct curl_slist *)(uintptr_t)ask.headers;
        ask.headers = &second;
    }
    return atoll_e2b_http_ask(p->http, call, what, &ask, ret, err);
}

int atoll_e2b_api_refused(const struct atoll_e2b_provider *p, const char *what,
                          struct atoll_e2b_answer *answer, struct atoll_error *err)
{
    return atoll_e2b_refusal(err, what, answer->status, (const char *)atoll_buf_head(&answer->body),
                             atoll_buf_size(&answer->body), answer->retry_after_s, p->key);
}

int atoll_e2b_api_json(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                       const char *what, const char *method, const char *path, json_t *body,
                       json_t **ret_json, struct atoll_error *err)
{
    ATOLL_E2B_AUTOANSWER struct atoll_e2b_answer answer;
    int r = atoll_e2b_api(p, call, what, method, path, body, &answer, err);

    if (r < 0)
        return r;
    if (answer.status < 200 || answer.status > 299)
        return atoll_e2b_api_refused(p, what, &answer, err);
    if (!ret_json)
        return 0;
    *ret_json = json_loadb((const char *)atoll_buf_head(&answer.body), atoll_buf_size(&answer.body),
                           0, NULL);
    if (!*ret_json)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          "%s: the E2B service's answer is not JSON", what);
    return 0;
}

int atoll_e2b_header(struct curl_slist **list, struct atoll_error *err, const char *fmt, ...)
{
    struct curl_slist *more = NULL;
    char *line = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&line, fmt, ap);
    va_end(ap);
    if (n >= 0) {
        more = curl_slist_append(*list, line);
        free(line);
    }
    if (!more) {
        curl_slist_free_all(*list);
        *list = NULL;
        return atoll_fail_errno(err, ENOMEM, "headers");
    }
    *list = more;
    return 0;
}

/* Domains of the service that use one host for all sandboxes. */
static bool has_shared_host(const char *domain)
{
    static const char *const shared[] = {"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(shared); i++)
        if (strcmp(domain, shared[i]) == 0)
            return true;
    return false;
}

static int make_url(const struct atoll_e2b_provider *p, const struct atoll_e2b_remote *remote,
                    char **ret)
{
    const char *domain = remote->domain[0] ? remote->domain : p->domain;

    if (p->sandbox_url)
        return asprintf(ret, "%s", p->sandbox_url);
    if (has_shared_host(domain))
        return asprintf(ret, "https://sandbox.%s", domain);
    return asprintf(ret, "https://%d-%s.%s", ATOLL_E2B_ENVD_PORT, remote->handle, domain);
}

int atoll_e2b_envd(const struct atoll_e2b_provider *p, const struct atoll_e2b_remote *remote,
                   char **ret_url, struct curl_slist **ret_headers, struct atoll_error *err)
{
    struct curl_slist *headers = NULL;
    char root[12];
    int r;

    atoll_base64_text(root, "root:", 5);
    r = atoll_e2b_header(&headers, err, "E2b-Sandbox-Id: %s", remote->handle);
    if (r == 0)
        r = atoll_e2b_header(&headers, err, "E2b-Sandbox-Port: %d", ATOLL_E2B_ENVD_PORT);
    if (r == 0)
        r = atoll_e2b_header(&headers, err, "Authorization: Basic %s", root);
    if (r == 0 && remote->token[0])
        r = atoll_e2b_header(&headers, err, "X-Access-Token: %s", remote->token);
    if (r < 0)
        return r;
    if (make_url(p, remote, ret_url) < 0) {
        curl_slist_free_all(headers);
        return atoll_fail_errno(err, ENOMEM, "address");
    }
    *ret_headers = headers;
    return 0;
}
