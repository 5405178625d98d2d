/*
 * The table of verbs, and the lookup by name. Some names have two words ("template ls").
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"

const struct atoll_cli_verb *const atoll_cli_verbs[] = {
    &atoll_cli_run,
    &atoll_cli_create,
    &atoll_cli_ls,
    &atoll_cli_ps,
    &atoll_cli_inspect,
    &atoll_cli_exec,
    &atoll_cli_shell,
    &atoll_cli_ssh,
    &atoll_cli_code,
    &atoll_cli_cp,
    &atoll_cli_sync,
    &atoll_cli_git,
    &atoll_cli_logs,
    &atoll_cli_attach,
    &atoll_cli_wait,
    &atoll_cli_kill,
    &atoll_cli_top,
    &atoll_cli_stats,
    &atoll_cli_health,
    &atoll_cli_net,
    &atoll_cli_mcp,
    &atoll_cli_preview,
    &atoll_cli_port,
    &atoll_cli_pause,
    &atoll_cli_resume,
    &atoll_cli_start,
    &atoll_cli_stop,
    &atoll_cli_restart,
    &atoll_cli_rename,
    &atoll_cli_snapshot,
    &atoll_cli_snapshots,
    &atoll_cli_fork,
    &atoll_cli_restore,
    &atoll_cli_diff,
    &atoll_cli_history,
    &atoll_cli_undo,
    &atoll_cli_blame,
    &atoll_cli_merge,
    &atoll_cli_try,
    &atoll_cli_rm,
    &atoll_cli_prune,
    &atoll_cli_events,
    &atoll_cli_approvals,
    &atoll_cli_task_run,
    &atoll_cli_task_ls,
    &atoll_cli_task_show,
    &atoll_cli_task_logs,
    &atoll_cli_task_cancel,
    &atoll_cli_task_retry,
    &atoll_cli_task_take,
    &atoll_cli_task_rm,
    &atoll_cli_session_create,
    &atoll_cli_session_code,
    &atoll_cli_session_ls,
    &atoll_cli_session_show,
    &atoll_cli_session_rm,
    &atoll_cli_export,
    &atoll_cli_artifacts_ls,
    &atoll_cli_artifacts_get,
    &atoll_cli_artifacts_rm,
    &atoll_cli_registry_ls,
    &atoll_cli_registry_show,
    &atoll_cli_pull,
    &atoll_cli_push,
    &atoll_cli_images,
    &atoll_cli_build,
    &atoll_cli_template_ls,
    &atoll_cli_template_import,
    &atoll_cli_template_debian,
    &atoll_cli_template_build,
    &atoll_cli_template_show,
    &atoll_cli_template_history,
    &atoll_cli_template_sbom,
    &atoll_cli_template_diff,
    &atoll_cli_template_save,
    &atoll_cli_template_tag,
    &atoll_cli_template_share,
    &atoll_cli_template_rm,
    &atoll_cli_template_gc,
    &atoll_cli_volume_create,
    &atoll_cli_volume_ls,
    &atoll_cli_volume_rm,
    &atoll_cli_key_create,
    &atoll_cli_key_ls,
    &atoll_cli_key_rm,
    &atoll_cli_secret_create,
    &atoll_cli_secret_ls,
    &atoll_cli_secret_rm,
    &atoll_cli_connector_create,
    &atoll_cli_connector_login,
    &atoll_cli_connector_ls,
    &atoll_cli_connector_show,
    &atoll_cli_connector_rm,
    &atoll_cli_up,
    &atoll_cli_down,
    &atoll_cli_reload,
    &atoll_cli_status,
    &atoll_cli_ca,
    &atoll_cli_vercel_env,
    &atoll_cli_vercel_ca,
    &atoll_cli_providers,
    &atoll_cli_bench,
    &atoll_cli_doctor,
    &atoll_cli_verify,
    &atoll_cli_completion,
    &atoll_cli_man,
    &atoll_cli_version,
    &atoll_cli_help,
    NULL,
};

/* Iterates over the first words of all verbs, or over the second words of one group. */
struct walk {
    const struct atoll_cli_verb *const *at;
    const char *group; /* NULL: first words */
    char word[32];
};

static const char *next_word(void *arg)
{
    struct walk *walk = arg;

    for (; *walk->at; walk->at++) {
        const char *name = (*walk->at)->name;
        size_t n = strcspn(name, " ");
        if (!walk->group) {
            (void)snprintf(walk->word, sizeof(walk->word), "%.*s", (int)n, name);
        } else {
            if (!name[n] || strlen(walk->group) != n || memcmp(name, walk->group, n) != 0)
                continue;
            (void)snprintf(walk->word, sizeof(walk->word), "%s", name + n + 1);
        }
        walk->at++;
        return walk->word;
    }
    return NULL;
}

bool atoll_cli_is_group(const char *word)
{
    struct walk walk = {.at = atoll_cli_verbs, .group = word};
    return next_word(&walk) != NULL;
}

/* atoll_cli_nearest() keeps pointers to the words, so they have to outlive the walk. */
struct words {
    char text[ATOLL_ARRAY_LEN(atoll_cli_verbs)][32]; /* a verb has at most one word of its own */
    size_t n, at;
};

static const char *next_kept(void *arg)
{
    struct words *words = arg;
    return words->at < words->n ? words->text[words->at++] : NULL;
}

static void fail_unknown(const char *group, const char *word, struct atoll_error *err)
{
    struct walk walk = {.at = atoll_cli_verbs, .group = group};
    struct words words = {.n = 0};
    const char *name, *nearest;

    while (words.n < ATOLL_ARRAY_LEN(words.text) && (name = next_word(&walk)) != NULL)
        memcpy(words.text[words.n++], name, strlen(name) + 1);
    nearest = atoll_cli_nearest(word, next_kept, &words);
    (void)atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                     "unknown verb \"%s%s%.60s\"%s%s%s%s%s", group ? group : "", group ? " " : "",
                     word, nearest ? "; did you mean " : "", nearest && group ? group : "",
                     nearest && group ? " " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static void fail_incomplete(const char *group, struct atoll_error *err)
{
    struct walk walk = {.at = atoll_cli_verbs, .group = group};
    char list[120] = "";
    const char *word;

    while ((word = next_word(&walk)) != NULL) {
        size_t len = strlen(list);
        (void)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "", word);
    }
    (void)atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s needs a verb: %s", group, list);
}

const struct atoll_cli_verb *atoll_cli_find_verb(char *const *argv, int *ret_words,
                                                 struct atoll_error *err)
{
    bool group = atoll_cli_is_group(argv[0]);
    const char *second = group ? argv[1] : NULL;
    char name[64];

    (void)snprintf(name, sizeof(name), "%s%s%s", argv[0], second ? " " : "", second ? second : "");
    for (const struct atoll_cli_verb *const *verb = atoll_cli_verbs; *verb; verb++)
        if (strcmp((*verb)->name, name) == 0) {
            *ret_words = second ? 2 : 1;
            return *verb;
        }
    if (argv[0][0] == '-')
        (void)atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "\"%.60s\": options must follow the verb", argv[0]);
    else if (group && (!second || second[0] == '-'))
        fail_incomplete(argv[0], err);
    else
        fail_unknown(group ? argv[0] : NULL, group ? second : argv[0], err);
    return NULL;
}
