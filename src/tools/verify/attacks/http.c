/*
 * Input that parsers may interpret differently: request smuggling, and JSON that exhausts stack or
 * memory.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "tools/verify/attacks/attacks_internal.h"

#define REQUEST_MAX (16 * 1024)
#define PORT_INSIDE "8071"
#define CLOSE_MS 5000
#define MEMORY_KIB (96 * 1024)
#define DEEP 100000
#define DEEP_ENOUGH 20000
#define KEYS 200000

/*
 * D10. A request that is followed by, or contains, a second one. In the texts "@S" is the second request
 * (appended if there is no "@S"), "@N" the number of bytes after the head, "@X" the length of the second
 * request in hex.
 */
#define CASE(name, text)             \
    {                                \
        name, text, sizeof(text) - 1 \
    }
static const struct smuggle {
    const char *name, *text;
    size_t n;
} smuggles[] = {
    CASE("both lengths", "Content-Length: @N\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n@S"),
    CASE("both, the other way",
         "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n@X\r\n@S\r\n0\r\n\r\n"),
    CASE("two lengths", "Content-Length: 0\r\nContent-Length: @N\r\n\r\n@S"),
    CASE("two lengths, the other way", "Content-Length: @N\r\nContent-Length: 0\r\n\r\n@S"),
    CASE("a list of lengths", "Content-Length: 0, @N\r\n\r\n@S"),
    CASE("a signed length", "Content-Length: +0\r\n\r\n@S"),
    CASE("a hex length", "Content-Length: 0x0\r\n\r\n@S"),
    CASE("a negative length", "Content-Length: -0\r\n\r\n@S"),
    CASE("a huge length", "Content-Length: 18446744073709551616\r\n\r\n@S"),
    CASE("a blank before the colon", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n@S"),
    CASE("a tab for a blank",
         "Transfer-Encoding:\tchunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n@S"),
    CASE("chunked twice", "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n@S"),
    CASE("another coding", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n@S"),
    CASE("chunked and identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"
                                 "0\r\n\r\n@S"),
    CASE("a folded header", "X-A: b\r\n Transfer-Encoding: chunked\r\n\r\n@S"),
    CASE("a bare return", "X-A: b\rContent-Length: 5\r\n\r\n@S"),
    CASE("a bare line end", "X-A: b\nContent-Length: 0\n\n@S"),
    CASE("a NUL", "X-A: a\0b\r\n\r\n@S"),
    CASE("a header without a name", ": x\r\n\r\n@S"),
    CASE("no colon", "nonsense\r\n\r\n@S"),
    CASE("a chunk too large", "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n@S"),
    CASE("a signed chunk", "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n0\r\n\r\n@S"),
    CASE("a chunk without its end", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n@S"),
    CASE("a chunk that ends early", "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n@S"),
    CASE("a bare line end in a chunk", "Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n@S"),
};

static void second_request(const struct atoll_raid *raid, const char *where, char *out, size_t cap)
{
    char credentials[600];

    (void)snprintf(
        out, cap,
        "POST %s?path=smuggled HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 0\r\n\r\n", where,
        atoll_raid_credentials(raid, credentials, sizeof(credentials)));
}

static size_t put(char *out, size_t used, const void *bytes, size_t n)
{
    if (used + n >= REQUEST_MAX)
        return used;
    memcpy(out + used, bytes, n);
    return used + n;
}

/* Writes the case to `out`; `follows` is the number for "@N". */
static size_t expand(const struct smuggle *s, const char *second, size_t follows, char *out,
                     size_t used)
{
    char number[32];

    for (size_t i = 0; i < s->n; i++) {
        if (s->text[i] != '@') {
            used = put(out, used, s->text + i, 1);
            continue;
        }
        switch (s->text[++i]) {
        case 'S':
            used = put(out, used, second, strlen(second));
            break;
        case 'N':
            used = put(out, used, number, (size_t)snprintf(number, sizeof(number), "%zu", follows));
            break;
        case 'X':
            used = put(out, used, number,
                       (size_t)snprintf(number, sizeof(number), "%zx", strlen(second)));
            break;
        default:
            break;
        }
    }
    return used;
}

static size_t compose(const struct atoll_raid *raid, const struct smuggle *s, const char *target,
                      const char *second, char *out)
{
    char credentials[600], alone[REQUEST_MAX];
    const char *body = memmem(s->text, s->n, "\r\n\r\n", 4);
    struct smuggle rest = {.name = "", .text = body ? body + 4 : s->text};
    size_t used, follows;

    rest.n = body ? s->n - (size_t)(rest.text - s->text) : 0;
    follows = expand(&rest, second, 0, alone, 0);
    used = (size_t)snprintf(out, REQUEST_MAX, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s", target,
                            atoll_raid_credentials(raid, credentials, sizeof(credentials)));
    return expand(s, second, follows, out, used);
}

/* Whether the error is after the head: the daemon may answer before it reads that part. */
static bool is_late(const struct smuggle *s)
{
    static const char head[] = "Transfer-Encoding: chunked\r\n\r\n";
    return s->n > sizeof(head) - 1 && memcmp(s->text, head, sizeof(head) - 1) == 0;
}

/* Tries one case: the daemon must refuse once and close the connection. */
static void smuggle(struct atoll_raid *raid, struct atoll_raid_outcome *o, const struct smuggle *s,
                    const char *target, const char *second)
{
    char request[REQUEST_MAX];
    size_t n = compose(raid, s, target, second, request);
    struct atoll_buf answer;
    const char *text, *next;
    bool closed;
    int status;

    atoll_buf_init(&answer, 64 * 1024);
    status = atoll_raid_raw(raid, false, request, n, CLOSE_MS, &answer, &closed);
    text = atoll_buf_str(&answer);
    next = *text ? strstr(text + 1, "\nHTTP/1.1 ") : NULL;
    if (status < 0)
        atoll_outcome_unknown(o, "raw bytes cannot be sent: %s", strerror(-status));
    else if (next)
        atoll_outcome_found(o, "%s: two answers", s->name);
    else if (status != 0 && status < 400 && !is_late(s))
        atoll_outcome_found(o, "%s: answered %d", s->name, status);
    else if (!closed)
        atoll_outcome_found(o, "%s: the connection stays open after %d", s->name, status);
    atoll_buf_done(&answer);
}

static bool second_was_served(struct atoll_raid *raid)
{
    return atoll_raid_callf(raid, "GET", "/api/sandboxes/%s/files/stat?path=smuggled", raid->box) ==
           200;
}

/* Checks that the second request works if it is sent alone; otherwise the attack proves nothing. */
static bool second_works(struct atoll_raid *raid, const char *second)
{
    struct atoll_buf answer;
    bool closed, works;

    atoll_buf_init(&answer, 64 * 1024);
    (void)atoll_raid_raw(raid, false, second, strlen(second), 500, &answer, &closed);
    atoll_buf_done(&answer);
    works = second_was_served(raid);
    (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s/files?path=smuggled&recursive=true",
                           raid->box);
    return works;
}

/* The same for a server inside: its log must not contain the second request. */
static void smuggle_inside(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char target[100], path[100], second[1200], out[REQUEST_MAX], exec_id[ATOLL_RAID_ID_MAX];

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/previews", raid->box);
    if (!atoll_raid_arm(raid, o) ||
        atoll_raid_call(raid, "POST", target, "{\"port\":" PORT_INSIDE ",\"public\":true}") !=
            201 ||
        !atoll_raid_start(raid, raid->box,
                          "exec " ATOLL_RAID_PROBE " --serve " PORT_INSIDE " smuggle.log inside",
                          exec_id)) {
        atoll_outcome_unknown(o, "no server could be started inside");
        return;
    }
    (void)snprintf(target, sizeof(target), "/preview/%s/" PORT_INSIDE "/first", raid->box);
    for (int i = 0; i < 100 && atoll_raid_call(raid, "GET", target, NULL) != 200; i++)
        (void)usleep(50 * 1000);
    (void)snprintf(path, sizeof(path), "/preview/%s/" PORT_INSIDE "/second", raid->box);
    second_request(raid, path, second, sizeof(second));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(smuggles); i++)
        smuggle(raid, o, &smuggles[i], target, second);
    if (atoll_raid_sh(raid, raid->box, NULL, "cat smuggle.log; rm -f smuggle.log", out,
                      sizeof(out)) != 0 ||
        !strstr(out, "GET /first"))
        atoll_outcome_unknown(o, "the server inside got nothing");
    if (strstr(out, "/second"))
        atoll_outcome_found(o, "a second request got through to a server inside");
    (void)atoll_raid_callf(raid, "DELETE", "/api/sandboxes/%s/previews/" PORT_INSIDE, raid->box);
}

void atoll_attack_smuggling(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char target[100], path[100], second[1200];

    if (!atoll_raid_box(raid, o))
        return;
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/timeout", raid->box);
    (void)snprintf(path, sizeof(path), "/api/sandboxes/%s/files/mkdir", raid->box);
    second_request(raid, path, second, sizeof(second));
    if (!second_works(raid, second)) {
        atoll_outcome_unknown(o, "the request to be smuggled does not work by itself either");
        return;
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(smuggles); i++) {
        smuggle(raid, o, &smuggles[i], target, second);
        if (second_was_served(raid)) {
            atoll_outcome_found(o, "%s: the second request was served", smuggles[i].name);
            (void)atoll_raid_callf(
                raid, "DELETE", "/api/sandboxes/%s/files?path=smuggled&recursive=true", raid->box);
        }
    }
    smuggle_inside(raid, o);
    (void)atoll_raid_alive(raid, o, "smuggling");
    atoll_outcome_note(o,
                       "%zu requests that two readers take for different ones, to the API and to "
                       "a server inside: one refusal each, and the end of the connection",
                       ATOLL_ARRAY_LEN(smuggles));
}

/* The careless, lenient HTTP parser. */

struct lenient {
    const char *name;
    bool chunked_first; /* Transfer-Encoding has precedence over Content-Length */
    bool last_length;   /* of several Content-Length headers the last one counts */
};

static const char *line_end(const char *p, const char *end)
{
    const char *lf = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;

    return lf ? lf + 1 : end;
}

/* Returns the end of the body of the request whose head begins at p. */
static const char *skip_lenient(const struct lenient *reader, const char *p, const char *end)
{
    long length = -1;
    bool chunked = false;

    for (p = line_end(p, end);
         p < end && *p != '\n' && !(p[0] == '\r' && p + 1 < end && p[1] == '\n');
         p = line_end(p, end)) {
        const char *colon = memchr(p, ':', (size_t)(line_end(p, end) - p));
        if (colon && strncasecmp(p, "content-length", 14) == 0 &&
            (length < 0 || reader->last_length))
            length = strtol(colon + 1, NULL, 0);
        if (colon && strncasecmp(p, "transfer-encoding", 17) == 0 &&
            memmem(colon, (size_t)(line_end(p, end) - colon), "chunked", 7))
            chunked = true;
    }
    p = line_end(p, end);
    if (chunked && (reader->chunked_first || length < 0)) {
        long size;
        do {
            size = p < end ? strtol(p, NULL, 16) : 0;
            p = line_end(p, end);
            if (size < 0 || size > end - p)
                size = 0;
            p = size > 0 ? line_end(p + size, end) : line_end(p, end);
        } while (size > 0 && p < end);
        return p;
    }
    return length > 0 ? p + ATOLL_MIN(length, end - p) : p;
}

static bool serves_second(const struct lenient *reader, const char *bytes, size_t n)
{
    const char *p = bytes, *end = bytes + n;

    for (int i = 0; i < 8 && p < end; i++) {
        if (i > 0 && (size_t)(end - p) > 5 && memcmp(p, "POST ", 5) == 0 &&
            memmem(p, (size_t)(line_end(p, end) - p), "smuggled", 8))
            return true;
        p = skip_lenient(reader, p, end);
    }
    return false;
}

void atoll_control_smuggling(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const struct lenient readers[] = {
        {"chunks count", true, false},
        {"the first length counts", false, false},
        {"the last length counts", false, true},
    };
    char request[REQUEST_MAX], second[1200];
    size_t fell = 0;

    second_request(raid, "/api/sandboxes/x/files/mkdir", second, sizeof(second));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(smuggles); i++) {
        size_t n = compose(raid, &smuggles[i], "/api/sandboxes/x/timeout", second, request);
        bool served = false;
        for (size_t k = 0; k < ATOLL_ARRAY_LEN(readers); k++)
            served |= serves_second(&readers[k], request, n);
        fell += served;
    }
    if (fell > ATOLL_ARRAY_LEN(smuggles) / 2)
        atoll_outcome_found(o,
                            "readers that want to please serve the second request in %zu of %zu "
                            "cases",
                            fell, ATOLL_ARRAY_LEN(smuggles));
}

/* D11. */

static const struct {
    const char *name, *text;
} bodies[] = {
    {"a key twice", "{\"metadata\":{},\"metadata\":{}}"},
    {"a key twice inside", "{\"metadata\":{\"a\":\"1\",\"a\":\"2\"}}"},
    {"a huge number", "{\"limits\":{\"memoryMB\":1e999999}}"},
    {"a huge integer", "{\"limits\":{\"pids\":99999999999999999999999999}}"},
    {"a lone surrogate", "{\"template\":\"\\ud800\"}"},
    {"an escaped NUL", "{\"template\":\"host\\u0000x\"}"},
    {"no UTF-8", "{\"template\":\"\xff\xfe\"}"},
    {"trailing data", "{}{}"},
    {"a comment", "{/**/}"},
    {"NaN", "{\"limits\":{\"memoryMB\":NaN}}"},
    {"a list", "[]"},
};

static void send_body(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *name,
                      const void *bytes, size_t n)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    const struct atoll_ask ask = {
        .method = "POST", .target = "/api/sandboxes", .body = bytes, .size = n};
    int status = atoll_raid_ask(raid, &ask, &reply);
    ATOLL_AUTOJSON json_t *made = NULL;

    if (status == 400 || status == 413)
        return;
    atoll_outcome_found(o, "%s was answered %d", name, status);
    if (status == 201 &&
        (made = atoll_link_parse_json(atoll_buf_head(&reply.body), atoll_buf_size(&reply.body))))
        (void)atoll_raid_drop(raid, atoll_link_text(made, "id", ""));
}

static void send_repeated(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *name,
                          const char *begin, const char *piece, size_t times)
{
    struct atoll_buf body;
    int r;

    atoll_buf_init(&body, (size_t)8 * 1024 * 1024);
    r = atoll_buf_appends(&body, begin);
    for (size_t i = 0; r == 0 && i < times; i++)
        r = atoll_buf_appends(&body, piece);
    if (r == 0)
        send_body(raid, o, name, atoll_buf_head(&body), atoll_buf_size(&body));
    atoll_buf_done(&body);
}

static void send_keys(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct atoll_buf body;
    int r;

    atoll_buf_init(&body, (size_t)8 * 1024 * 1024);
    r = atoll_buf_appends(&body, "{\"metadata\":{");
    for (int i = 0; r == 0 && i < KEYS; i++)
        r = atoll_buf_appendf(&body, "%s\"k%d\":\"\"", i ? "," : "", i);
    if (r == 0)
        r = atoll_buf_appends(&body, "}}");
    if (r == 0)
        send_body(raid, o, "200000 keys", atoll_buf_head(&body), atoll_buf_size(&body));
    atoll_buf_done(&body);
}

void atoll_attack_json(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    int64_t before = atoll_raid_daemon_memory(raid), after;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bodies); i++)
        send_body(raid, o, bodies[i].name, bodies[i].text, strlen(bodies[i].text));
    send_repeated(raid, o, "100000 lists", "{\"metadata\":", "[", DEEP);
    send_repeated(raid, o, "100000 objects", "{\"metadata\":", "{\"a\":", DEEP);
    send_repeated(raid, o, "100000 strings", "{\"metadata\":", "\"\\", DEEP);
    send_keys(raid, o);
    (void)atoll_raid_alive(raid, o, "hostile JSON");
    after = atoll_raid_daemon_memory(raid);
    if (before >= 0 && after > before + MEMORY_KIB)
        atoll_outcome_found(o, "the daemon grew by %lld KiB", (long long)(after - before));
    atoll_outcome_note(o, "%zu bodies, among them 100000 levels and 200000 keys: 400 or 413 each",
                       ATOLL_ARRAY_LEN(bodies) + 4);
}

/* The careless JSON parser recurses for every bracket; it stops before the stack overflows. */
static int read_recursively(const char *p, int depth)
{
    int deepest = depth;

    if (*p == '[' && depth < DEEP_ENOUGH)
        deepest = read_recursively(p + 1, depth + 1);
    return deepest;
}

void atoll_control_json(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    ATOLL_AUTOFREE char *body = malloc(DEEP + 1);
    int depth;

    (void)raid;
    if (!body)
        return;
    memset(body, '[', DEEP);
    body[DEEP] = '\0';
    depth = read_recursively(body, 0);
    if (depth >= DEEP_ENOUGH)
        atoll_outcome_found(
            o, "a reader that calls itself went %d calls deep and had to be stopped", depth);
}
