/*
 * Previews: forged Host headers, and cross-site attacks on browsers.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "tools/verify/attacks/attacks_internal.h"

#define PORT 8072
#define PORT_TEXT "8072"
#define INSIDE "verify-inside"
#define LOG "preview.log"

/* Starts a server inside and opens a preview for it; returns its token, or false. */
static bool open_preview(struct atoll_raid *raid, struct atoll_raid_outcome *o, bool is_public,
                         char *token, size_t cap)
{
    ATOLL_AUTOJSON json_t *preview = NULL;
    char target[100], exec_id[ATOLL_RAID_ID_MAX];
    const char *url;

    if (!atoll_raid_arm(raid, o))
        return false;
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/previews", raid->box);
    preview = atoll_raid_json(raid, "POST", target,
                              is_public ? "{\"port\":" PORT_TEXT ",\"public\":true}"
                                        : "{\"port\":" PORT_TEXT ",\"public\":false}");
    (void)snprintf(token, cap, "%s", atoll_link_text(preview, "token", ""));
    url = atoll_link_text(preview, "url", "");
    if (!*token) {
        atoll_outcome_unknown(o, "no preview could be made");
        return false;
    }
    if (!raid->domain[0] && sscanf(url, "http%*[^.].%255[^:/]", raid->domain) != 1)
        (void)snprintf(raid->domain, sizeof(raid->domain), "localhost");
    /* If the server already runs, the second one finds the port in use and exits. */
    (void)atoll_raid_start(raid, raid->box,
                           "exec " ATOLL_RAID_PROBE " --serve " PORT_TEXT " " LOG " " INSIDE,
                           exec_id);
    (void)snprintf(target, sizeof(target), "/preview/%s/" PORT_TEXT "/?token=%s", raid->box, token);
    for (int i = 0; i < 100; i++) {
        int status = atoll_raid_call(raid, "POST", target, NULL);
        if (status == 200)
            return true;
        (void)usleep(50 * 1000);
    }
    atoll_outcome_unknown(o, "the server inside does not answer through its preview");
    return false;
}

static void close_preview(struct atoll_raid *raid)
{
    (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s/previews/" PORT_TEXT, raid->box);
}

/* D17. %s is the id, then the domain. */
static const char *const hosts[] = {
    "08072-%s.%s",   "8072-%s.%s.",    "8072-%s.%s.example",  "example.8072-%s.%s",
    "8072-%s@%s",    "8072--%s.%s",    "18072-%s.%s",         "+8072-%s.%s",
    "8072-%sa.%s",   "8072-%s.x.%s",   "8072-%s.%s:99999999", "8072-%s.%s:x",
    "8072-%s%%2e%s", "8072_%s.%s",     "8072-%s .%s",         "8072-%s.%s,localhost",
    "%s-8072.%s",    "8072-%s.%s/../", "0x1f88-%s.%s",        "73608-%s.%s",
};

/* Whole requests; "@H" is the host of the preview. */
static const char *const requests[] = {
    "GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: @H\r\n",
    "GET / HTTP/1.1\r\nHost: localhost\r\nForwarded: host=@H\r\n",
    "GET / HTTP/1.1\r\nHost: localhost\r\nX-Original-Host: @H\r\nX-Host: @H\r\n",
    "GET http://@H/ HTTP/1.1\r\nHost: localhost\r\n",
    "GET http://localhost/ HTTP/1.1\r\nHost: @H\r\n",
    "GET / HTTP/1.1\r\nHost: localhost\r\nHost: @H\r\n",
    "GET / HTTP/1.1\r\nHost: @H\r\nHost: localhost\r\n",
    "GET //@H/ HTTP/1.1\r\nHost: localhost\r\n",
    "GET @H HTTP/1.1\r\nHost: localhost\r\n",
    "GET / HTTP/1.1\r\nX-A: @H\r\n",
};

/* Sends the head of a request; whether the server inside answered. */
static bool reaches(struct atoll_raid *raid, bool tcp, const char *head, int *ret_status)
{
    char request[2000];
    struct atoll_buf answer;
    bool closed, inside;

    (void)snprintf(request, sizeof(request), "%sConnection: close\r\n\r\n", head);
    atoll_buf_init(&answer, 64 * 1024);
    *ret_status =
        atoll_raid_raw(raid, tcp, request, strlen(request), ATOLL_RAID_WAIT_MS, &answer, &closed);
    inside = strstr(atoll_buf_str(&answer), INSIDE) != NULL;
    atoll_buf_done(&answer);
    return inside;
}

static void write_host(const struct atoll_raid *raid, const char *format, char *out, size_t cap)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(out, cap, format, raid->box, raid->domain);
#pragma GCC diagnostic pop
}

static void replace_host(const char *text, const char *host, char *out, size_t cap)
{
    size_t used = 0;

    for (; *text && used + 1 < cap; text++)
        if (text[0] == '@' && text[1] == 'H') {
            used += (size_t)snprintf(out + used, cap - used, "%s", host);
            used = ATOLL_MIN(used, cap - 1);
            text++;
        } else {
            out[used++] = *text;
        }
    out[used] = '\0';
}

static size_t try_hosts(struct atoll_raid *raid, struct atoll_raid_outcome *o, bool tcp)
{
    char host[400], head[1000], capitals[400];
    size_t tried = 0;
    int status;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(hosts); i++, tried++) {
        write_host(raid, hosts[i], host, sizeof(host));
        (void)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: %s\r\n", host);
        if (reaches(raid, tcp, head, &status))
            atoll_outcome_found(o, "the host %.80s led into the sandbox", host);
        else if (status == 500)
            atoll_outcome_found(o, "the host %.80s was answered 500", host);
    }
    write_host(raid, "8072-%s.%s", host, sizeof(host));
    for (size_t i = 0; i <= strlen(host); i++)
        capitals[i] = (char)toupper((unsigned char)host[i]);
    (void)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: %s\r\n", capitals);
    if (reaches(raid, tcp, head, &status))
        atoll_outcome_found(o, "a host in capitals led into the sandbox");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(requests); i++, tried++) {
        replace_host(requests[i], host, head, sizeof(head));
        if (reaches(raid, tcp, head, &status))
            atoll_outcome_found(o, "%.60s led into the sandbox", head);
    }
    return tried;
}

/* DNS rebinding: a page of a host name that an attacker points to us must not reach the API. */
static void try_rebinding(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct atoll_raid_outcome ignored = {0};
    const char *key = atoll_raid_key(raid, &ignored, 0);
    char head[400];
    int status;

    if (!key || !raid->tcp_port)
        return;
    (void)snprintf(head, sizeof(head),
                   "GET /api/sandboxes HTTP/1.1\r\nHost: rebound.example\r\nX-API-Key: %s\r\n",
                   key);
    (void)reaches(raid, true, head, &status);
    if (status == 200)
        atoll_outcome_found(o, "the API answers to any host name");
}

void atoll_attack_hosts(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char token[100], host[400], head[1000];
    size_t tried;
    int status;

    if (!open_preview(raid, o, true, token, sizeof(token)))
        return;
    write_host(raid, "8072-%s.%s", host, sizeof(host));
    (void)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: %s\r\n", host);
    if (!reaches(raid, false, head, &status))
        atoll_outcome_unknown(o, "the right host does not lead into the sandbox (%d)", status);
    tried = try_hosts(raid, o, false);
    if (raid->tcp_port)
        tried += try_hosts(raid, o, true);
    try_rebinding(raid, o);
    close_preview(raid);
    atoll_outcome_note(o, "%zu requests with hosts that are not quite a preview's, %s: none got in",
                       tried, raid->tcp_port ? "at the socket and over TCP" : "at the socket");
}

/* The careless router accepts anything that looks like a port and an id, anywhere in the head. */
static bool route_carelessly(const struct atoll_raid *raid, const char *head)
{
    const char *host = strcasestr(head, "X-Forwarded-Host: ");
    unsigned port;
    char id[100];

    host = host ? host + 18 : strcasestr(head, "Host: ");
    if (host && strncasecmp(host, "Host: ", 6) == 0)
        host += 6;
    return host && sscanf(host, "%u-%99[a-z0-9]", &port, id) == 2 && port % 65536 == PORT &&
           strncmp(id, raid->box, strlen(raid->box)) == 0;
}

void atoll_control_hosts(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char host[400], head[1000];
    size_t fell = 0;

    if (!atoll_raid_box(raid, o))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(hosts); i++) {
        write_host(raid, hosts[i], host, sizeof(host));
        (void)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: %s\r\n", host);
        fell += route_carelessly(raid, head);
    }
    write_host(raid, "8072-%s.%s", host, sizeof(host));
    replace_host(requests[0], host, head, sizeof(head));
    fell += route_carelessly(raid, head);
    if (fell > 3)
        atoll_outcome_found(o, "a careless router let %zu of them in", fell);
}

/* D19. */

/* Requests of a page of another site, in a browser that has the preview's cookie. */
static void try_origins(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *token)
{
    static const char *const ways[] = {
        ("GET / HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"),
        "POST / HTTP/1.1\r\nContent-Length: 0\r\n",
        "DELETE / HTTP/1.1\r\n",
    };
    static const char *const origins[] = {"http://evil.example", "null", "http://localhost",
                                          "http://8072-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost"};
    char host[400], head[1200];
    int status;

    write_host(raid, "8072-%s.%s", host, sizeof(host));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ways) * ATOLL_ARRAY_LEN(origins); i++) {
        const char *origin = origins[i % ATOLL_ARRAY_LEN(origins)];
        (void)snprintf(head, sizeof(head),
                       "%sHost: %s\r\nOrigin: %s\r\nCookie: atoll_preview=%s\r\n",
                       ways[i / ATOLL_ARRAY_LEN(origins)], host, origin, token);
        if (reaches(raid, false, head, &status) || status == 101)
            atoll_outcome_found(o, "a page of %s acted with the cookie of another", origin);
    }
    (void)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: %s\r\nCookie: atoll_preview=%s\r\n",
                   host, token);
    if (!reaches(raid, false, head, &status))
        atoll_outcome_unknown(o, "the cookie does not work for its own page either (%d)", status);
}

/* Which credentials of the visitor reach the server inside. */
static void try_credentials(struct atoll_raid *raid, struct atoll_raid_outcome *o,
                            const char *token)
{
    struct atoll_raid_outcome ignored = {0};
    const char *made = atoll_raid_key(raid, &ignored, 0);
    const char *key = made ? made : "atl_abcdefghijklmnopqrstuvwxyz0123456789abcd";
    char host[400], head[2000], seen[16384];
    int status;

    write_host(raid, "8072-%s.%s", host, sizeof(host));
    (void)atoll_raid_sh(raid, raid->box, NULL, "rm -f " LOG, NULL, 0);
    for (int by_path = 0; by_path < 2; by_path++) {
        (void)snprintf(head, sizeof(head),
                       "GET %s%s%s/seen HTTP/1.1\r\nHost: %s\r\nX-Atoll-Preview-Token: %s\r\n"
                       "Authorization: Bearer %s\r\nX-API-Key: %s\r\n"
                       "Cookie: atoll_preview=%s; mine=1\r\n",
                       by_path ? "/preview/" : "", by_path ? raid->box : "",
                       by_path ? "/" PORT_TEXT : "", by_path ? "localhost" : host, token, key, key,
                       token);
        if (!reaches(raid, false, head, &status))
            atoll_outcome_unknown(o, "the server inside was not reached (%d)", status);
    }
    if (atoll_raid_sh(raid, raid->box, NULL, "cat " LOG, seen, sizeof(seen)) != 0 ||
        !strstr(seen, "/seen"))
        atoll_outcome_unknown(o, "what the server inside saw cannot be read");
    if (strstr(seen, key))
        atoll_outcome_found(o, "the server inside got to see an API key");
    if (strstr(seen, token))
        atoll_outcome_found(o, "the server inside got to see the token of its preview");
}

/* Which cookies the server inside can set in the visitor's browser. */
static void try_cookies(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *token)
{
    char host[400], request[1200];
    struct atoll_buf answer;
    bool closed;

    write_host(raid, "8072-%s.%s", host, sizeof(host));
    for (int by_path = 0; by_path < 2; by_path++) {
        (void)snprintf(request, sizeof(request),
                       "GET %s%s%s/ HTTP/1.1\r\nHost: %s\r\nX-Atoll-Preview-Token: %s\r\n"
                       "Connection: close\r\n\r\n",
                       by_path ? "/preview/" : "", by_path ? raid->box : "",
                       by_path ? "/" PORT_TEXT : "", by_path ? "localhost" : host, token);
        atoll_buf_init(&answer, 64 * 1024);
        (void)atoll_raid_raw(raid, false, request, strlen(request), ATOLL_RAID_WAIT_MS, &answer,
                             &closed);
        if (strcasestr(atoll_buf_str(&answer), "domain="))
            atoll_outcome_found(o, "a cookie of a sandbox reaches beyond its own host");
        if (strstr(atoll_buf_str(&answer), "forged"))
            atoll_outcome_found(o, "a sandbox replaced a cookie of the daemon");
        if (by_path && strcasestr(atoll_buf_str(&answer), "set-cookie"))
            atoll_outcome_found(o, "a sandbox set a cookie for the host of the API");
        atoll_buf_done(&answer);
    }
}

void atoll_attack_origins(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char token[100];

    if (!open_preview(raid, o, false, token, sizeof(token)))
        return;
    try_origins(raid, o, token);
    try_credentials(raid, o, token);
    try_cookies(raid, o, token);
    close_preview(raid);
    atoll_outcome_note(o,
                       "pages of other sites with the cookie are refused; keys, tokens and cookies "
                       "pass in neither direction");
}

/* The careless proxy forwards every request that has the cookie. */
void atoll_control_origins(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char request[] = "GET / HTTP/1.1\r\nUpgrade: websocket\r\nOrigin: "
                                  "http://evil.example\r\nCookie: atoll_preview=TOKEN\r\n"
                                  "Authorization: Bearer KEY\r\n\r\n";
    char passed[sizeof(request)];

    (void)raid;
    if (!strstr(request, "atoll_preview=TOKEN"))
        return;
    memcpy(passed, request, sizeof(passed));
    if (strstr(passed, "evil.example") && strstr(passed, "KEY") && strstr(passed, "TOKEN"))
        atoll_outcome_found(o, "a proxy that looks at the cookie only let a foreign page in and "
                               "passed the key on");
}
