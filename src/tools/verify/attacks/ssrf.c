/*
 * Server-side request forgery: whether the daemon can be made to connect to its own host. The canary is a
 * listener of ours on the loopback.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tools/verify/attacks/attacks_internal.h"

#define CALL_MS 300

static void send_line(struct atoll_raid *raid, const char *line)
{
    char request[1600], credentials[600];
    struct atoll_buf answer;
    bool closed;

    (void)snprintf(request, sizeof(request), "%s%sConnection: close\r\n\r\n", line,
                   atoll_raid_credentials(raid, credentials, sizeof(credentials)));
    atoll_buf_init(&answer, 64 * 1024);
    (void)atoll_raid_raw(raid, false, request, strlen(request), ATOLL_RAID_WAIT_MS, &answer,
                         &closed);
    atoll_buf_done(&answer);
}

/* D18. */

static void preview_of(struct atoll_raid *raid, struct atoll_raid_outcome *o, unsigned port,
                       const char *whose)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    char target[200], body[64];
    struct atoll_ask ask = {.method = "GET", .target = target};

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/previews", raid->box);
    (void)snprintf(body, sizeof(body), "{\"port\":%u,\"public\":true}", port);
    (void)atoll_raid_call(raid, "POST", target, body);
    (void)snprintf(target, sizeof(target), "/preview/%s/%u/healthz", raid->box, port);
    if (atoll_raid_ask(raid, &ask, &reply) == 200)
        atoll_outcome_found(o, "a preview led to %s", whose);
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/previews/%u", raid->box, port);
    (void)atoll_raid_call(raid, "DELETE", target, NULL);
}

static void bad_ports(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const bodies[] = {"{\"port\":0}", "{\"port\":-1}", "{\"port\":65536}",
                                         "{\"port\":\"80@127.0.0.1\"}",
                                         "{\"port\":80,\"host\":\"127.0.0.1\"}"};
    char target[100];

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/previews", raid->box);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bodies); i++)
        if (atoll_raid_call(raid, "POST", target, bodies[i]) != 400)
            atoll_outcome_found(o, "a preview of %s was made", bodies[i]);
}

void atoll_attack_preview_ssrf(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char *const lines[] = {
        "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n",
        "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n",
        "GET http://localhost:%u/ HTTP/1.1\r\nHost: localhost:%u\r\n",
        "GET //127.0.0.1:%u/ HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n",
        "GET /preview/127.0.0.1:%u/%u/ HTTP/1.1\r\nHost: localhost\r\n",
        "GET /preview/aaaaaaaaaaaaaaaaaaaaaaaaaa/%u@127.0.0.1:%u/ HTTP/1.1\r\nHost: localhost\r\n",
    };
    uint16_t port = 0;
    ATOLL_AUTOCLOSE int listener = atoll_raid_listen(&port);
    char line[400];

    if (!atoll_raid_box(raid, o))
        return;
    if (listener < 0) {
        atoll_outcome_unknown(o, "no listener could be made on the host: %s", strerror(-listener));
        return;
    }
    preview_of(raid, o, port, "a listener of the host");
    if (raid->tcp_port)
        preview_of(raid, o, raid->tcp_port, "the daemon itself");
    bad_ports(raid, o);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lines); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(line, sizeof(line), lines[i], (unsigned)port, (unsigned)port);
#pragma GCC diagnostic pop
        send_line(raid, line);
    }
    if (atoll_raid_was_called(listener, CALL_MS))
        atoll_outcome_found(o, "the daemon connected to a port of the host");
    (void)atoll_raid_alive(raid, o, "previews of other places");
    atoll_outcome_note(
        o, "previews of ports of the host, CONNECT and absolute targets: nothing of the "
           "host was dialled");
}

/* The careless proxy connects to the port on the host instead of in the sandbox. */
void atoll_control_preview_ssrf(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    uint16_t port = 0;
    ATOLL_AUTOCLOSE int listener = atoll_raid_listen(&port);
    ATOLL_AUTOCLOSE int fd = listener >= 0 ? atoll_raid_dial(port, CALL_MS) : ATOLL_NO_FD;

    (void)raid;
    if (fd >= 0 && atoll_raid_was_called(listener, CALL_MS))
        atoll_outcome_found(o, "a proxy that dials in its own network reached the host");
}

/* D30. As a tenant: the operator's own may name registries on this host. */

static const char *const images[] = {
    "127.0.0.1:%u/verify/a:latest",   "localhost:%u/verify/a",        "127.1:%u/verify/a",
    "[::ffff:127.0.0.1]:%u/verify/a", "http://127.0.0.1:%u/verify/a", "user@127.0.0.1:%u/verify/a",
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void write_image(size_t i, unsigned port, char *out, size_t cap)
{
    (void)snprintf(out, cap, images[i], port);
}
#pragma GCC diagnostic pop

void atoll_attack_feature_ssrf(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    uint16_t port = 0;
    ATOLL_AUTOCLOSE int listener = atoll_raid_listen(&port);
    const char *key = atoll_raid_key(raid, o, 0);
    char image[100], body[200];

    if (listener < 0) {
        atoll_outcome_unknown(o, "no listener could be made on the host: %s", strerror(-listener));
        return;
    }
    for (size_t i = 0; key && i < ATOLL_ARRAY_LEN(images); i++) {
        ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
        struct atoll_ask ask = {
            .method = "POST", .target = "/api/sandboxes", .key = key, .body = body};
        write_image(i, port, image, sizeof(image));
        ask.size = (size_t)snprintf(body, sizeof(body), "{\"image\":\"%s\"}", image);
        if (atoll_raid_ask(raid, &ask, &reply) == 201)
            atoll_outcome_found(o, "an image %s was made into a sandbox", image);
        if (atoll_raid_was_called(listener, 50))
            atoll_outcome_found(o, "the image %s caused a connection to the host's loopback",
                                image);
    }
    if (atoll_raid_was_called(listener, CALL_MS))
        atoll_outcome_found(o, "an image caused a connection to the host's loopback");
    (void)atoll_raid_alive(raid, o, "images of other places");
    atoll_outcome_note(o, "%zu images that name a listener of this host: no connection was made",
                       ATOLL_ARRAY_LEN(images));
}

/* The careless client connects to whatever host comes before the first slash. */
void atoll_control_feature_ssrf(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    uint16_t port = 0;
    ATOLL_AUTOCLOSE int listener = atoll_raid_listen(&port);
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char image[100], host[64];
    unsigned named;

    (void)raid;
    if (listener < 0)
        return;
    write_image(0, port, image, sizeof(image));
    if (sscanf(image, "%63[^:]:%u/", host, &named) == 2 && strcmp(host, "127.0.0.1") == 0)
        fd = atoll_raid_dial((uint16_t)named, CALL_MS);
    if (fd >= 0 && atoll_raid_was_called(listener, CALL_MS))
        atoll_outcome_found(o, "a client that trusts the name of an image connected to the host");
}
