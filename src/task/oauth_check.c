#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "task/oauth_internal.h"

/*
 * What a client may write into "oauth" of a connector. Pure.
 */
#define SCOPES_MAX 64
#define TEXT_MAX 8192

static bool is_text(const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || !*text || strlen(text) > TEXT_MAX)
        return false;
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

bool atoll_oauth_is_endpoint(const char *url)
{
    static const char *const here[] = {"127.0.0.1", "localhost", "[::1]"};
    bool https = url && strncmp(url, "https://", 8) == 0;
    const char *host = https ? url + 8 : url && strncmp(url, "http://", 7) == 0 ? url + 7 : "";
    size_t n = strcspn(host, "/?"),
           name = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?");

    if (n == 0 || name == 0 || strlen(url) > ATOLL_OAUTH_URL_MAX || memchr(host, '@', n))
        return false;
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c >= 0x7f || strchr("\"#<>\\^`{|}", *c))
            return false;
    for (size_t i = 0; !https && i < ATOLL_ARRAY_LEN(here); i++)
        https = strlen(here[i]) == name && strncmp(host, here[i], name) == 0;
    return https;
}

static bool is_endpoint(const json_t *value)
{
    return atoll_oauth_is_endpoint(json_string_value(value));
}

static bool is_grant(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && (strcmp(text, "refresh_token") == 0 || strcmp(text, "client_credentials") == 0 ||
                    strcmp(text, "authorization_code") == 0);
}

static bool is_client_auth(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && (strcmp(text, "basic") == 0 || strcmp(text, "post") == 0);
}

static bool is_scopes(const json_t *value)
{
    bool good = json_is_array(value) && json_array_size(value) <= SCOPES_MAX;

    for (size_t i = 0; good && i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        good = is_text(one) && !strchr(json_string_value(one), ' ');
    }
    return good;
}

static bool is_resource(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && (!*text || (is_text(value) && strlen(text) <= ATOLL_OAUTH_URL_MAX));
}

static const struct {
    const char *name;
    bool (*is_good)(const json_t *value);
    const char *what;
} members[] = {
    {"grant", is_grant, "\"refresh_token\", \"client_credentials\" or \"authorization_code\""},
    {"tokenUrl", is_endpoint, "an https URL"},
    {"clientId", is_text, "a text in one line"},
    {"clientSecret", is_text, "a text in one line; ${secret.NAME} stands for a secret"},
    {"clientAuth", is_client_auth, "\"basic\" or \"post\""},
    {"refreshToken", is_text, "a text in one line; ${secret.NAME} stands for a secret"},
    {"scopes", is_scopes, "a list of at most 64 texts without blanks"},
    {"resource", is_resource, "a URL, or \"\" for none"},
};

bool atoll_oauth_is(const json_t *oauth, const char *grant)
{
    const char *given = json_string_value(json_object_get(oauth, "grant"));

    if (!given)
        given = json_object_get(oauth, "refreshToken") ? "refresh_token" : "authorization_code";
    return strcmp(given, grant) == 0;
}

static int refuse(struct atoll_error *err, const char *where, const char *member, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.100s.oauth%s%.64s must %s", where,
                      *member ? "." : "", member, what);
}

static int check_members(const json_t *oauth, const char *where, struct atoll_error *err)
{
    const char *name;
    json_t *value;
    char what[120];
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)oauth, name, value)
    {
        for (i = 0; i < ATOLL_ARRAY_LEN(members) && strcmp(members[i].name, name) != 0;)
            i++;
        if (i == ATOLL_ARRAY_LEN(members))
            return refuse(err, where, "",
                          "have no members but grant, tokenUrl, clientId, clientSecret, "
                          "clientAuth, refreshToken, scopes and resource");
        (void)snprintf(what, sizeof(what), "be %s", members[i].what);
        if (!members[i].is_good(value))
            return refuse(err, where, name, what);
    }
    return 0;
}

/* Which members belong together. */
static int check_whole(const json_t *oauth, const char *where, struct atoll_error *err)
{
    bool machine = atoll_oauth_is(oauth, "client_credentials");
    bool token = json_object_get(oauth, "refreshToken") != NULL;

    if (machine && !json_object_get(oauth, "clientSecret"))
        return refuse(err, where, "clientSecret", "be given with \"client_credentials\"");
    if (atoll_oauth_is(oauth, "refresh_token") && !token)
        return refuse(err, where, "refreshToken", "be given with \"refresh_token\"");
    if ((machine || token) &&
        (!json_object_get(oauth, "tokenUrl") || !json_object_get(oauth, "clientId")))
        return refuse(err, where, "", "have tokenUrl and clientId");
    return 0;
}

/* Header rules reach https at its usual port only. */
static bool is_reached(const char *url)
{
    const char *host = url && strncmp(url, "https://", 8) == 0 ? url + 8 : NULL;
    const char *port = host ? memchr(host, ':', strcspn(host, "/?#")) : NULL;

    return host && (!port || strncmp(port, ":443", strcspn(port, "/?#")) == 0);
}

int atoll_oauth_check(const json_t *definition, const char *where, struct atoll_error *err)
{
    const json_t *oauth = json_object_get(definition, "oauth");
    const char *name;
    json_t *value;
    int r;

    if (!json_is_object(oauth))
        return refuse(err, where, "", "be an object");
    r = check_members(oauth, where, err);
    if (r == 0)
        r = check_whole(oauth, where, err);
    if (r == 0 && !is_reached(json_string_value(json_object_get(definition, "url"))))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "%.100s.url must be an https URL without another port than 443, for oauth",
                       where);
    json_object_foreach(json_object_get(definition, "headers"), name, value)
    {
        if (r == 0 && strcasecmp(name, "Authorization") == 0)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                           "%.100s.headers must not have Authorization: oauth gives it", where);
    }
    return r;
}

void atoll_oauth_resource(const json_t *definition, char out[static ATOLL_OAUTH_URL_MAX + 1])
{
    const json_t *given = json_object_get(json_object_get(definition, "oauth"), "resource");
    const char *url = json_string_value(given ? given : json_object_get(definition, "url"));

    (void)snprintf(out, ATOLL_OAUTH_URL_MAX + 1, "%.*s",
                   given ? ATOLL_OAUTH_URL_MAX : (int)strcspn(url, "?#"), url);
}
