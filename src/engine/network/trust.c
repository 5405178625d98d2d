/*
 * Header rules and downloads that are kept need programs that trust the certificate of atoll-egress. Most read the trust store of the
 * system, which has it. Some bring certificates of their own: these variables point them to the file that
 * every native sandbox has. Other sandboxes do not get them.
 */
#include <string.h>
#include "engine/engine_internal.h"
#include "engine/network/bound.h"
#include "engine/network/network.h"
#include "sandbox/spec.h"

/* A policy is stored in its canonical form, without blanks. In a text of it a quote is escaped. */
static bool has_transforms(const struct atoll_sandbox *sandbox)
{
    return strstr(atoll_network_policy_of(sandbox), "\"transforms\":[{") != NULL;
}

const char *const *atoll_network_trust_env(const struct atoll_sandbox *sandbox)
{
    static const char *const none[] = {NULL};
    static const char *const variables[] = {
        "SSL_CERT_FILE=" ATOLL_TRUSTED_FILE,      /* OpenSSL, Go, Ruby, uv */
        "REQUESTS_CA_BUNDLE=" ATOLL_TRUSTED_FILE, /* Python, with certificates of certifi */
        "PIP_CERT=" ATOLL_TRUSTED_FILE,           "CURL_CA_BUNDLE=" ATOLL_TRUSTED_FILE,
        "GIT_SSL_CAINFO=" ATOLL_TRUSTED_FILE,     "NODE_EXTRA_CA_CERTS=" ATOLL_TRUSTED_FILE,
        "CARGO_HTTP_CAINFO=" ATOLL_TRUSTED_FILE,  "AWS_CA_BUNDLE=" ATOLL_TRUSTED_FILE,
        "DENO_CERT=" ATOLL_TRUSTED_FILE,          NULL,
    };

    if (!atoll_network_serves(sandbox))
        return none;
    return sandbox->engine->network->cache_table || has_transforms(sandbox) ? variables : none;
}
