#include "cli/words.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/rand.h"
#include "base/text.h"

#define EXEC_ID_LEN 16

static const struct atoll_cli_word words[] = {
    {.name = "ACTION"},
    {.name = "ATOLLD-OPTION"},
    {.name = "ARG", .source = ATOLL_CLI_FROM_FILES},
    {"CALL", ATOLL_CLI_FROM_LIST, "/api/approvals", "approvals", "id", "tool", 0, NULL},
    {.name = "CODE"},
    {.name = "COMMAND", .source = ATOLL_CLI_FROM_FILES},
    {.name = "DIR", .source = ATOLL_CLI_FROM_DIRECTORIES},
    {.name = "DIRECTORY|TARBALL|-", .source = ATOLL_CLI_FROM_FILES},
    {"CONNECTOR", ATOLL_CLI_FROM_LIST, "/api/connectors", "connectors", "name", "type", 0, NULL},
    {.name = "DST", .source = ATOLL_CLI_FROM_SIDES},
    {"ENDED-SANDBOX", ATOLL_CLI_FROM_LIST, "/api/artifacts", "artifacts", "sandbox_id",
     "created_at", ATOLL_ID_LEN, NULL},
    {"ENVIRONMENT", ATOLL_CLI_FROM_LIST, "/api/registry/environments", "environments", "name",
     "description", 0, NULL},
    {"EXEC", ATOLL_CLI_FROM_LIST, "/api/sandboxes/%s/execs", "execs", "exec_id", "state",
     EXEC_ID_LEN, NULL},
    {.name = "FILE", .source = ATOLL_CLI_FROM_FILES},
    {"FORK", ATOLL_CLI_FROM_LIST, "/api/sandboxes", "sandboxes", "id", "state", 0, "name"},
    {.name = "FROM"},
    {.name = "HOST:SANDBOX", .source = ATOLL_CLI_FROM_FILES},
    {"IMAGE", ATOLL_CLI_FROM_LIST, "/api/images", "images", "name", "created_at", 0, NULL},
    {"KEY", ATOLL_CLI_FROM_LIST, "/api/keys", "keys", "id", "tenant", ATOLL_ID_LEN, NULL},
    {.name = "INSTRUCTION"},
    {.name = "LANGUAGE"},
    {.name = "N"},
    {.name = "NAME"},
    {.name = "PATH", .source = ATOLL_CLI_FROM_FILES},
    {.name = "PORT"},
    {"PROVIDER", ATOLL_CLI_FROM_LIST, "/api/providers", "providers", "name", "state", 0, NULL},
    {.name = "REASON"},
    {"SANDBOX", ATOLL_CLI_FROM_LIST, "/api/sandboxes", "sandboxes", "id", "state", 0, "name"},
    {"SECRET", ATOLL_CLI_FROM_LIST, "/api/secrets", "secrets", "name", "updated_at", 0, NULL},
    {"SESSION", ATOLL_CLI_FROM_LIST, "/api/sessions", "sessions", "session_id", "environment",
     ATOLL_ID_LEN, NULL},
    {.name = "SRC", .source = ATOLL_CLI_FROM_SIDES},
    {.name = "STEP"},
    {.name = "TAG"},
    {"TASK", ATOLL_CLI_FROM_LIST, "/api/tasks", "tasks", "id", "instruction", ATOLL_ID_LEN, NULL},
    {"TEMPLATE", ATOLL_CLI_FROM_LIST, "/api/templates", "templates", "name", "state", 0, NULL},
    {.name = "TENANT"},
    {.name = "TO"},
    {.name = "VERB", .source = ATOLL_CLI_FROM_VERBS},
    {"VOLUME", ATOLL_CLI_FROM_LIST, "/api/volumes", "volumes", "name", "provider", 0, NULL},
    {.name = "WORD"},
};

const struct atoll_cli_word *atoll_cli_word_find(const char *name)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(words); i++)
        if (strcmp(words[i].name, name) == 0)
            return &words[i];
    return NULL;
}

bool atoll_cli_word_is_choice(const char *name)
{
    return islower((unsigned char)*name) && strchr(name, '|');
}

bool atoll_cli_arg_word(const struct atoll_cli_verb *verb, int at, char out[ATOLL_CLI_WORD_MAX])
{
    const char *p = verb->args;
    bool repeats = false;

    out[0] = '\0';
    while (*(p += strspn(p, " ["))) {
        size_t n = strcspn(p, " "), len = ATOLL_MIN(n, strcspn(p, "]."));
        bool skip = *p == '-' || (len == 6 && memcmp(p, "OPTION", len) == 0);
        if (!skip && len < ATOLL_CLI_WORD_MAX) {
            memcpy(out, p, len);
            out[len] = '\0';
            repeats = memmem(p, n, "...", 3) != NULL;
            if (at-- == 0)
                return true;
        }
        p += n;
    }
    return repeats;
}

/* Lists are paged by the daemon only on request, so one answer has all items. */
int atoll_cli_word_items(struct atoll_cli *cli, const struct atoll_cli_word *word,
                         const char *sandbox, json_t **ret_items, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r;

    if (strchr(word->target, '%'))
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs", sandbox);
    else
        r = atoll_text_copy(target.text, sizeof(target.text), word->target);
    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r == 0)
        *ret_items = json_incref(json_object_get(reply, word->array));
    return r;
}

/* The only item whose id begins with the prefix; NULL if no id does. */
static int find_only(const json_t *items, const struct atoll_cli_word *word, const char *prefix,
                     const char **ret_id, struct atoll_error *err)
{
    size_t n = strlen(prefix);

    *ret_id = NULL;
    for (size_t i = 0; i < json_array_size(items); i++) {
        const char *id = atoll_link_text(json_array_get(items, i), word->id, "");
        if (strncmp(id, prefix, n) != 0)
            continue;
        if (!id[n]) {
            *ret_id = id;
            return 0;
        }
        if (*ret_id)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "%s is the beginning of several ids, such as %.40s and %.40s", prefix,
                              *ret_id, id);
        *ret_id = id;
    }
    return 0;
}

int atoll_cli_word_resolve(struct atoll_cli *cli, const struct atoll_cli_word *word,
                           const char *sandbox, char **id, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *items = NULL;
    size_t n = strlen(*id);
    const char *found = NULL;
    int r;

    if (n < ATOLL_CLI_PREFIX_MIN || n >= word->id_len || !atoll_text_is_id(*id))
        return 0;
    r = atoll_cli_word_items(cli, word, sandbox, &items, err);
    if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND)
        return 0;
    if (r == 0)
        r = find_only(items, word, *id, &found, err);
    if (r < 0 || !found || strcmp(found, *id) == 0)
        return r;
    if (!cli->ids)
        cli->ids = json_array();
    if (json_array_append_new(cli->ids, json_string(found)) < 0)
        return atoll_fail_errno(err, ENOMEM, "id");
    *id = (char *)json_string_value(json_array_get(cli->ids, json_array_size(cli->ids) - 1));
    return 0;
}

int atoll_cli_resolve_args(struct atoll_cli *cli, int argc, char **argv, struct atoll_error *err)
{
    const char *sandbox = NULL;
    int r = 0;

    for (int i = 0; r == 0 && i < argc; i++) {
        char name[ATOLL_CLI_WORD_MAX];
        const struct atoll_cli_word *word =
            atoll_cli_arg_word(cli->verb, i, name) ? atoll_cli_word_find(name) : NULL;
        if (word && word->id_len > 0)
            r = atoll_cli_word_resolve(cli, word, sandbox, &argv[i], err);
        if (strcmp(name, "SANDBOX") == 0)
            sandbox = argv[i];
    }
    return r;
}
