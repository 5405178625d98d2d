/*
 * What a service that speaks Daytona's protocol answers, and the policies that it is sent: descriptions of
 * sandboxes, previews, refusals, network policies. The first byte chooses which, the second the status of a
 * refusal.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "fuzz.h"
#include "network/policy.h"
#include "provider/daytona/messages.h"

#define SECRET "dtn_secret"
#define PORT 3000

/* Handles become parts of URLs, and the toolbox is one. */
static void fuzz_answers(const uint8_t *data, size_t size, uint8_t choice)
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL), *items;
    struct atoll_daytona_remote remote;
    struct atoll_error err = {0};
    char cursor[100];

    (void)choice;
    if (atoll_daytona_read_remote(json, &remote, &err) == 0) {
        FUZZ_CHECK(*remote.of.handle && !strpbrk(remote.of.handle, "/?#%.:@ \r\n"));
        FUZZ_CHECK(!strpbrk(remote.toolbox, " \t\r\n"));
        FUZZ_CHECK(!remote.gone || !*remote.of.id);
        FUZZ_CHECK(!remote.gone || remote.of.state == ATOLL_REMOTE_STOPPED);
    } else {
        FUZZ_CHECK(err.kind == ATOLL_ERR_UNAVAILABLE);
    }
    memset(cursor, 'x', sizeof(cursor));
    items = atoll_daytona_read_list(json, cursor, sizeof(cursor));
    FUZZ_CHECK(!json_is_object(json) || memchr(cursor, '\0', sizeof(cursor)));
    json_decref(items);
    json_decref(json);
}

/* The host of ports is part of URLs for the browsers of others. */
static void fuzz_preview(const uint8_t *data, size_t size, uint8_t choice)
{
    char *url = strndup((const char *)data, size), host[100 + 1];
    size_t cap = choice % sizeof(host) + 1;

    if (url && atoll_daytona_read_preview(url, PORT, host, ATOLL_MIN(cap, sizeof(host)))) {
        FUZZ_CHECK(strncmp(host, "{port}-", 7) == 0 && strlen(host) < cap);
        FUZZ_CHECK(!strpbrk(host, "/?#%@ \r\n"));
    }
    free(url);
}

static void fuzz_refusal(const uint8_t *data, size_t size, uint8_t choice)
{
    static const long statuses[] = {400, 401, 403, 404, 408, 409, 410, 422, 302, 429, 500, 503};
    long status = statuses[choice % ATOLL_ARRAY_LEN(statuses)];
    struct atoll_error err = {0};

    FUZZ_CHECK(atoll_remote_refused(&err, &atoll_daytona_service, "try", status, (const char *)data,
                                    size, choice, SECRET) < 0);
    FUZZ_CHECK(err.kind != ATOLL_ERR_NONE && !strstr(err.text, SECRET));
    for (const char *p = err.text; *p; p++)
        FUZZ_CHECK(*p >= ' ' && *p <= '~');
}

static void check_name(const struct atoll_network_policy *meant,
                       const struct atoll_network_policy *sent, const char *name)
{
    FUZZ_CHECK(!atoll_network_decide_name(sent, name).allow ||
               atoll_network_decide_name(meant, name).allow);
}

/* The names and addresses that the policy mentions. */
static void check_allows_no_more(const struct atoll_network_policy *meant,
                                 const struct atoll_network_policy *sent)
{
    for (size_t i = 0; i < meant->rule_count; i++) {
        const struct atoll_network_target *t = &meant->rules[i].target;
        const struct atoll_network_query query = {.address = &t->address, .port = 443};

        if (t->domain)
            check_name(meant, sent, t->domain);
        else if (!t->any)
            FUZZ_CHECK(!atoll_network_decide(sent, NULL, &query, false).allow ||
                       atoll_network_decide(meant, NULL, &query, false).allow);
    }
    check_name(meant, sent, "elsewhere.example");
}

/* What our own side of the protocol makes of the settings that are sent; NULL: it refuses them. */
static struct atoll_network_policy *read_settings(const json_t *sent)
{
    struct atoll_network_policy *read = NULL;
    struct atoll_error err;
    char *policy = NULL;
    json_t *json = NULL;

    if (atoll_daytona_policy(json_is_true(json_object_get(sent, "networkBlockAll")),
                             json_string_value(json_object_get(sent, "networkAllowList")),
                             json_string_value(json_object_get(sent, "domainAllowList")), NULL,
                             &policy, &err) == 0) {
        json = policy ? json_loads(policy, 0, NULL) : NULL;
        if (atoll_network_policy_parse(json, &read, &err) < 0)
            read = NULL;
    }
    json_decref(json);
    free(policy);
    return read;
}

/* Settings that are sent, as our own side reads them, allow no more than what was meant. */
static void fuzz_policy(const uint8_t *data, size_t size, uint8_t choice)
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL), *sent = json_object();
    struct atoll_network_policy *meant = NULL, *read;
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    struct atoll_error err;

    (void)choice;
    if (text && atoll_daytona_network(text, sent, &err) == 0 &&
        atoll_network_policy_parse(json, &meant, &err) == 0) {
        read = read_settings(sent);
        if (read)
            check_allows_no_more(meant, read);
        (void)atoll_network_policy_free(read);
    }
    (void)atoll_network_policy_free(meant);
    free(text);
    json_decref(sent);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const uint8_t *, size_t, uint8_t) = {fuzz_answers, fuzz_preview,
                                                                      fuzz_refusal, fuzz_policy};

    if (size < 2)
        return 0;
    kinds[data[0] % ATOLL_ARRAY_LEN(kinds)](data + 2, size - 2, data[1]);
    return 0;
}
