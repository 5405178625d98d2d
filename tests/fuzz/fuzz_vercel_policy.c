/* Network policies of Vercel's clients. What is accepted is a valid policy of the engine, which allows no
 * name and address that the request denies, and the answer has no value of a header. */
#include <stdlib.h>
#include <string.h>
#include "api/vercel/vercel_internal.h"
#include "engine/json_memory.h"
#include "fuzz.h"
#include "network/policy.h"

/* The texts of all values of headers. */
static void check_hidden(const json_t *request, const char *answer)
{
    json_t *allow = json_object_get(request, "allow"), *rules, *rule, *part, *value;
    const char *domain, *name;
    size_t i, k;

    json_object_foreach(allow, domain, rules) json_array_foreach(rules, i, rule)
        json_array_foreach(json_object_get(rule, "transform"), k, part)
            json_object_foreach(json_object_get(part, "headers"), name, value)
    {
        const char *text = json_string_value(value);
        /* A short text can be part of another one. */
        FUZZ_CHECK(!text || strlen(text) < 24 || !strstr(answer, text) || strstr(domain, text) ||
                   strstr(name, text));
    }
}

static void check_accepted(const json_t *request, const char *policy, json_t *answer)
{
    json_t *canonical = atoll_json_load_own(policy);
    char *text = atoll_json_dump(answer, JSON_COMPACT);
    const char *mode = json_string_value(json_object_get(answer, "mode"));
    struct atoll_network_policy *parsed = NULL;
    struct atoll_error error;

    FUZZ_CHECK(mode && text);
    FUZZ_CHECK(!policy || atoll_network_policy_parse(canonical, &parsed, &error) == 0);
    if (parsed)
        FUZZ_CHECK(parsed->otherwise_allow == (strcmp(mode, "allow-all") == 0));
    check_hidden(request, text);
    parsed = atoll_network_policy_free(parsed);
    json_decref(canonical);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_body body;
    struct atoll_error error;
    json_t *answer = NULL;
    char *policy = NULL;

    if (atoll_body_parse(&body, data, size, &error) == 0) {
        int r = atoll_vercel_policy(body.root, &policy, &answer, &error);
        FUZZ_CHECK((r == 0) == (answer != NULL));
        if (r == 0)
            check_accepted(body.root, policy, answer);
        else
            FUZZ_CHECK(!policy && *error.text);
    }
    free(policy);
    json_decref(answer);
    atoll_body_done(&body);
    return 0;
}
