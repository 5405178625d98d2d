/*
 * Previews: URLs of ports, with a token in a header or signed, and the requests to them.
 *
 * A signed URL has a label of 53 characters in place of the sandbox's id: the id, the end of its
 * validity in seconds of unix time (7 characters to base 36) and a MAC.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/daytona_internal.h"
#include "api/preview.h"
#include "api/preview_rules.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/text.h"

#define ID_LEN ATOLL_ID_LEN
#define END_LEN 7
#define MAC_LEN 20
#define SIGNED_LEN (ID_LEN + END_LEN + MAC_LEN)
#define SECONDS_DEFAULT 60
#define SECONDS_MAX 86400
#define EXPIRED_MAX 64 /* tokens of a sandbox that were ended before their time */

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

/* Tokens. */

static void write_end(uint64_t seconds, char *out)
{
    for (size_t i = END_LEN; i-- > 0; seconds /= 36)
        out[i] = digits[seconds % 36];
}

static uint64_t read_end(const char *text)
{
    uint64_t seconds = 0;

    for (size_t i = 0; i < END_LEN; i++)
        seconds = seconds * 36 + (uint64_t)(strchr(digits, text[i]) - digits);
    return seconds;
}

/* Hosts have no capitals: the MAC is written with 36 characters. Before the first rotation of the signing
 * key its number is not part of the name: tokens of earlier versions remain valid. */
static void sign(const struct atoll_api *api, const char *head, uint16_t port, char *out)
{
    char name[ID_LEN + END_LEN + 48], mac[ATOLL_TOKEN_LEN + 1], id[ID_LEN + 1];
    const struct atoll_sandbox *sandbox;
    json_t *facts = NULL;
    int64_t number;

    (void)snprintf(id, sizeof(id), "%.*s", ID_LEN, head);
    sandbox = atoll_engine_find(api->config.engine, id);
    if (sandbox)
        facts = atoll_daytona_facts(sandbox);
    number = atoll_fact_number(facts, "keyNumber", 0);
    json_decref(facts);
    (void)snprintf(name, sizeof(name), "%.*s:%u", ID_LEN + END_LEN, head, port);
    if (number > 0)
        (void)snprintf(name + strlen(name), sizeof(name) - strlen(name), ":%lld",
                       (long long)number);
    atoll_token_make(api, "atoll daytona preview 1", name, mac);
    for (size_t i = 0; i < MAC_LEN; i++)
        out[i] = digits[(unsigned char)mac[i] % 36];
}

static void make_signed(const struct atoll_api *api, const char *id, uint16_t port,
                        uint64_t seconds, char out[SIGNED_LEN + 1])
{
    memcpy(out, id, ID_LEN);
    write_end((uint64_t)atoll_clock_unix_ms() / 1000 + seconds, out + ID_LEN);
    sign(api, out, port, out + ID_LEN + END_LEN);
    out[SIGNED_LEN] = '\0';
}

static bool was_expired(const struct atoll_sandbox *sandbox, const char *token)
{
    json_t *facts = atoll_daytona_facts(sandbox), *item;
    bool found = false;
    size_t i;

    json_array_foreach(json_object_get(facts, "expired"), i, item) found =
        found || strcmp(json_string_value(item), token) == 0;
    json_decref(facts);
    return found;
}

/* The sandbox of a valid token; id holds ID_LEN + 1 bytes. */
static bool is_signed(const struct atoll_api *api, const char *token, uint16_t port, char *id)
{
    const struct atoll_sandbox *sandbox;
    char mac[MAC_LEN];
    unsigned char differs = 0;

    if (strlen(token) != SIGNED_LEN || token[strspn(token, digits)] != '\0')
        return false;
    sign(api, token, port, mac);
    for (size_t i = 0; i < MAC_LEN; i++)
        differs |= (unsigned char)(mac[i] ^ token[ID_LEN + END_LEN + i]);
    if (differs || read_end(token + ID_LEN) < (uint64_t)atoll_clock_unix_ms() / 1000)
        return false;
    (void)snprintf(id, ID_LEN + 1, "%.*s", ID_LEN, token);
    sandbox = atoll_engine_find(api->config.engine, id);
    return sandbox && !was_expired(sandbox, token);
}

/* URLs. */

/* "http://<port>-<label>.<domain>:<port>"; "" without a listener. */
static void write_url(const struct atoll_api *api, uint16_t port, const char *label, char *out,
                      size_t cap)
{
    const struct atoll_preview_view view = {
        .sandbox_id = label, .port = port, .is_public = true, .token = "", .address = ""};
    char url[ATOLL_PREVIEW_URL_MAX] = "";
    size_t n;

    if (atoll_api_site(api))
        atoll_preview_url(atoll_api_site(api), &view, url);
    n = strlen(url);
    (void)snprintf(out, cap, "%.*s", (int)(n > 0 ? n - 1 : 0), url); /* without the slash */
}

void atoll_daytona_preview_template(const struct atoll_api *api, char *out, size_t cap)
{
    char url[ATOLL_PREVIEW_URL_MAX];
    const char *rest;

    write_url(api, 1, "{{sandboxId}}", url, sizeof(url));
    rest = strstr(url, "://1-");
    *out = '\0';
    if (rest)
        (void)snprintf(out, cap, "%.*s://{{PORT}}-%s", (int)(rest - url), url, rest + 5);
}

static uint16_t port_of(const struct atoll_api_call *call)
{
    uint64_t port = 0;

    (void)!atoll_text_u64(call->params.port, 1, UINT16_MAX, &port);
    return (uint16_t)port;
}

void atoll_daytona_preview_url(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    char url[ATOLL_PREVIEW_URL_MAX], token[ATOLL_TOKEN_LEN + 1];
    struct atoll_buf buf;
    struct atoll_json_out out;

    write_url(call->api, port_of(call), call->params.id, url, sizeof(url));
    atoll_daytona_sandbox_token(call->api, call->params.id, token);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "sandboxId", call->params.id);
    atoll_json_text(&out, "url", url);
    atoll_json_text(&out, "token", token);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_signed_preview(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    char url[ATOLL_PREVIEW_URL_MAX], token[SIGNED_LEN + 1];
    uint64_t seconds = SECONDS_DEFAULT;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (atoll_api_query_u64(call, "expiresInSeconds", 1, SECONDS_MAX, &seconds, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (strlen(call->params.id) != ID_LEN) {
        atoll_daytona_refuse(call, 501, NULL, "this sandbox cannot have signed URLs");
        return;
    }
    make_signed(call->api, call->params.id, port_of(call), seconds, token);
    write_url(call->api, port_of(call), token, url, sizeof(url));
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "sandboxId", call->params.id);
    atoll_json_u64(&out, "port", port_of(call));
    atoll_json_text(&out, "token", token);
    atoll_json_text(&out, "url", url);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* Leaves out tokens whose time is over. NULL: the list is full of tokens that would be valid again. */
static json_t *add_expired(const json_t *old, const char *token)
{
    json_t *list = json_array(), *item;
    uint64_t now = (uint64_t)atoll_clock_unix_ms() / 1000;
    size_t i;

    json_array_foreach(old, i, item) if (read_end(json_string_value(item) + ID_LEN) >= now)(void)
        json_array_append(list, item);
    if (json_array_size(list) >= EXPIRED_MAX) {
        json_decref(list);
        return NULL;
    }
    (void)json_array_append_new(list, json_string(token));
    return list;
}

void atoll_daytona_expire_preview(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    const char *token = call->params.name;
    struct atoll_error error;
    char id[ID_LEN + 1];
    json_t *facts, *list;

    if (!is_signed(call->api, token, port_of(call), id) || strcmp(id, call->params.id) != 0) {
        atoll_daytona_refuse(call, 404, NULL, "Signed preview URL not found");
        return;
    }
    facts = atoll_daytona_facts(sandbox);
    list = add_expired(json_object_get(facts, "expired"), token);
    json_decref(facts);
    if (!list)
        atoll_daytona_refuse(call, 429, NULL,
                             "at most %d signed URLs can be ended before their time", EXPIRED_MAX);
    else if (atoll_daytona_change(call->engine, call->params.id, "expired", list, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 201);
}

void atoll_daytona_toolbox_url(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    char origin[ATOLL_ORIGIN_MAX], url[ATOLL_ORIGIN_MAX + 32];
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_origin(call->api, call->req, origin);
    (void)snprintf(url, sizeof(url), "%s" ATOLL_DAYTONA_BASE "/toolbox", origin);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "url", url);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* Requests to previews. */

/* A key that could get the token of the sandbox. The server inside does not see it: see preview.c. */
static bool shows_key(const struct atoll_api *api, const struct atoll_http_request *req,
                      const char *id)
{
    const char *shown = atoll_auth_shown(req), *owner = atoll_api_owner_of(api->config.engine, id);
    struct atoll_key_view key;

    if (!shown || !api->config.auth.access || !atoll_auth_find_key(&api->config.auth, shown, &key))
        return false;
    owner = owner && *owner ? owner : ATOLL_TENANT_DEFAULT;
    return key.scope == ATOLL_SCOPE_ADMIN ||
           (key.scope == ATOLL_SCOPE_WRITE && strcmp(key.tenant, owner) == 0);
}

/* Whether the request shows the token of the sandbox or a key, or needs none. */
static bool may_visit(const struct atoll_api *api, const struct atoll_http_request *req,
                      const char *id)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(api->config.engine, id);
    const char *shown = atoll_http_header(req, ATOLL_DAYTONA_TOKEN_HEADER);
    char token[ATOLL_TOKEN_LEN + 1];
    json_t *facts;
    bool open;

    if (!sandbox)
        return false;
    shown = shown ? shown : atoll_http_query(req, ATOLL_DAYTONA_TOKEN_QUERY);
    atoll_daytona_sandbox_token(api, id, token);
    if (shown)
        return atoll_token_fits(shown, token);
    if (shows_key(api, req, id))
        return true;
    facts = atoll_daytona_facts(sandbox);
    open = !atoll_facts_are_foreign(facts) && atoll_fact_flag(facts, "public");
    json_decref(facts);
    return open;
}

/* "<port>-<label>.<domain>[:<port>]"; label holds 64 bytes. */
static bool parse_host(const char *host, const char *domain, uint16_t *ret_port, char *label)
{
    const char *dash = strchr(host, '-'), *dot = strchr(host, '.');
    char number[6];
    uint64_t port;

    if (!dash || !dot || dash > dot || dash - host > 5 || dot - dash - 1 > 63 ||
        !atoll_preview_in_domain(host, domain))
        return false;
    (void)snprintf(number, sizeof(number), "%.*s", (int)(dash - host), host);
    if (atoll_text_u64(number, 1, UINT16_MAX, &port) < 0)
        return false;
    (void)snprintf(label, 64, "%.*s", (int)(dot - dash - 1), dash + 1);
    *ret_port = (uint16_t)port;
    return true;
}

bool atoll_daytona_serve(void *state, struct atoll_http_request *req)
{
    const struct atoll_daytona *daytona = state;
    struct atoll_api *api = daytona->api;
    const struct atoll_preview_site *site = api->config.site;
    const char *host = atoll_http_header(req, "host"), *authority, *path;
    char label[64], id[ID_LEN + 1];
    uint16_t port;
    size_t n;
    char *target;

    path = atoll_target_path(atoll_http_target(req), &authority, &n);
    if (!api->preview || !site || !host || authority ||
        !parse_host(host, site->domain, &port, label))
        return false;
    if (!is_signed(api, label, port, id)) {
        if (strlen(label) != ID_LEN || !may_visit(api, req, label))
            return false;
        (void)snprintf(id, sizeof(id), "%s", label);
    }
    target = atoll_api_alloc(strlen(path) + 1);
    (void)atoll_preview_strip_parameter(path, ATOLL_DAYTONA_TOKEN_QUERY, target);
    atoll_daytona_touch(api, id);
    atoll_preview_pass(api, req, id, port, target);
    free(target);
    return true;
}
