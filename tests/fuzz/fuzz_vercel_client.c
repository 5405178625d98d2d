/*
 * What a service that speaks Vercel's protocol answers, and the policies that it is sent: descriptions of
 * sandboxes, the lines of a command, refusals, network policies. The first byte chooses which, the second
 * the status of a refusal.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "api/vercel/vercel_internal.h"
#include "fuzz.h"
#include "network/policy.h"
#include "provider/vercel/messages.h"

#define SECRET "vca_secret"
#define PORT 3000

/* Names of sandboxes and sessions become parts of URLs, and subdomains of headers. */
static void fuzz_answers(const uint8_t *data, size_t size, uint8_t choice)
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL), *items;
    struct atoll_vercel_remote remote;
    struct atoll_error err = {0};
    char cursor[100];

    (void)choice;
    if (atoll_vercel_read_answer(json, PORT, &remote, &err) == 0) {
        int64_t more = atoll_vercel_more_ms(&remote, 600, 1700000000000);
        FUZZ_CHECK(*remote.of.handle && !strpbrk(remote.of.handle, "/?#%.:@ \r\n"));
        FUZZ_CHECK(*remote.session && !strpbrk(remote.session, "/?#%.:@ \r\n"));
        FUZZ_CHECK(!strpbrk(remote.subdomain, "/?#%.:@ \r\n"));
        FUZZ_CHECK(more >= 1000 && more <= 600000);
    } else {
        FUZZ_CHECK(err.kind == ATOLL_ERR_UNAVAILABLE);
    }
    items = atoll_vercel_read_list(json, cursor, sizeof(cursor));
    FUZZ_CHECK(memchr(cursor, '\0', sizeof(cursor)));
    json_decref(items);
    json_decref(json);
}

/* Only a line that says so ends a command, and nothing after the bytes counts. */
static void fuzz_lines(const uint8_t *data, size_t size, uint8_t choice)
{
    struct atoll_remote_exit ended = {.code = -1}, again = {.code = -1};
    struct atoll_error err = {0};
    int r = atoll_vercel_read_run(data, size, &ended, &err);

    (void)choice;
    FUZZ_CHECK(atoll_vercel_read_run(data, size, &again, &err) == r && again.code == ended.code);
    if (r < 0) {
        FUZZ_CHECK(ended.code == -1 && err.kind == ATOLL_ERR_UNAVAILABLE);
        return;
    }
    FUZZ_CHECK(ended.code >= 0 && ended.code <= 255);
    FUZZ_CHECK(memchr(ended.text, '\0', sizeof(ended.text)));
    FUZZ_CHECK(size > 10 && memmem(data, size, "exitCode", 8));
}

static void fuzz_refusal(const uint8_t *data, size_t size, uint8_t choice)
{
    static const long statuses[] = {400, 401, 402, 403, 404, 409, 410, 422, 302, 429, 500, 503};
    long status = statuses[choice % ATOLL_ARRAY_LEN(statuses)];
    struct atoll_error err = {0};

    FUZZ_CHECK(atoll_remote_refused(&err, &atoll_vercel_service, "try", status, (const char *)data,
                                    size, choice, SECRET) < 0);
    FUZZ_CHECK(err.kind != ATOLL_ERR_NONE && !strstr(err.text, SECRET));
    for (const char *p = err.text; *p; p++)
        FUZZ_CHECK(*p >= ' ' && *p <= '~');
}

static void check_same_name(const struct atoll_network_policy *one,
                            const struct atoll_network_policy *other, const char *name)
{
    FUZZ_CHECK(!atoll_network_decide_name(other, name).allow ||
               atoll_network_decide_name(one, name).allow);
}

/* The names and addresses that either policy mentions. */
static void check_allows_no_more(const struct atoll_network_policy *meant,
                                 const struct atoll_network_policy *sent)
{
    for (size_t i = 0; i < meant->rule_count; i++) {
        const struct atoll_network_target *t = &meant->rules[i].target;
        const struct atoll_network_query query = {.address = &t->address, .port = 443};

        if (t->domain)
            check_same_name(meant, sent, t->domain);
        else if (!t->any)
            FUZZ_CHECK(!atoll_network_decide(sent, NULL, &query, false).allow ||
                       atoll_network_decide(meant, NULL, &query, false).allow);
    }
    for (size_t i = 0; i < sent->rule_count; i++)
        if (sent->rules[i].target.domain)
            check_same_name(meant, sent, sent->rules[i].target.domain);
    check_same_name(meant, sent, "elsewhere.example");
}

/* A policy that is sent, as our own side of the protocol reads it, allows no more than what was meant. */
static void fuzz_policy(const uint8_t *data, size_t size, uint8_t choice)
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL), *sent = NULL, *answer = NULL;
    struct atoll_network_policy *meant = NULL, *read = NULL;
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL, *policy = NULL;
    struct atoll_error err;

    (void)choice;
    if (text && atoll_vercel_network(text, &sent, &err) == 0 && sent &&
        atoll_network_policy_parse(json, &meant, &err) == 0 &&
        atoll_vercel_policy(sent, &policy, &answer, &err) == 0) {
        json_t *canonical = policy ? json_loads(policy, 0, NULL) : NULL;
        if (atoll_network_policy_parse(canonical, &read, &err) == 0)
            check_allows_no_more(meant, read);
        json_decref(canonical);
    }
    (void)atoll_network_policy_free(meant);
    (void)atoll_network_policy_free(read);
    free(policy);
    free(text);
    json_decref(answer);
    json_decref(sent);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const uint8_t *, size_t, uint8_t) = {fuzz_answers, fuzz_lines,
                                                                      fuzz_refusal, fuzz_policy};

    if (size < 2)
        return 0;
    kinds[data[0] % ATOLL_ARRAY_LEN(kinds)](data + 2, size - 2, data[1]);
    return 0;
}
