/* Advice about Dockerfiles: each row is a text and the rules with their lines. */
#include <stdio.h>
#include <string.h>
#include "image/dockerfile.h"
#include "test.h"

static void add(const struct atoll_dockerfile_warning *w, void *arg)
{
    char *out = arg;

    (void)sprintf(out + strlen(out), "%s%d:%s", *out ? " " : "", w->line, w->rule);
    assert_true(*w->text != '\0');
}

static void test_rules(void **state)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"FROM a\nRUN x\nCMD [\"y\"]\n", ""},
        {"FROM a AS Build\n", "1:StageNameCasing"},
        {"FROM a as b\n", "1:FromAsCasing"},
        {"from a AS b\n", "1:FromAsCasing"},
        {"FROM a AS b\nFROM c AS b\n", "2:DuplicateStageName"},
        {"FROM a AS scratch\n", "1:ReservedStageName"},
        {"FROM a\nrun x\nRUN y\n", "2:ConsistentInstructionCasing"},
        {"from a\nrun x\nRUN y\n", "3:ConsistentInstructionCasing"},
        {"FROM a\nRun x\n", "2:ConsistentInstructionCasing"},
        {"FROM a\nRUN x \\\n\n  y\n", "2:NoEmptyContinuation"},
        {"FROM a\nCMD x\n", "2:JSONArgsRecommended"},
        {"FROM a\nENTRYPOINT x\n", "2:JSONArgsRecommended"},
        {"FROM a\nSHELL [\"bash\", \"-c\"]\nCMD x\n", ""},
        {"FROM a\nMAINTAINER x\n", "2:MaintainerDeprecated"},
        {"FROM a:$V\n", "1:UndefinedArgInFrom"},
        {"ARG V=1\nFROM a:$V\n", ""},
        {"ARG V\nFROM a:$V\n", "2:InvalidDefaultArgInFrom"},
        {"ARG V\nFROM $V\n", "2:InvalidDefaultArgInFrom"},
        {"ARG V\nFROM a${V:-:1}\n", ""},
        {"FROM --platform=$TARGETPLATFORM a\n", "1:RedundantTargetPlatform"},
        {"FROM --platform=$BUILDPLATFORM a\n", ""},
        {"FROM --platform=linux/amd64 a\n", "1:FromPlatformFlagConstDisallowed"},
        {"FROM a\nWORKDIR b\nWORKDIR c\n", "2:WorkdirRelativePath"},
        {"FROM a\nWORKDIR /b\nWORKDIR c\n", ""},
        {"FROM a\nCMD [\"x\"]\nCMD [\"y\"]\n", "2:MultipleInstructionsDisallowed"},
        {"FROM a\nHEALTHCHECK NONE\nHEALTHCHECK NONE\n", "2:MultipleInstructionsDisallowed"},
        {"FROM a AS b\nCMD [\"x\"]\nFROM b\nCMD [\"y\"]\n", ""},
        {"FROM a\nENV x y\n", "2:LegacyKeyValueFormat"},
        {"FROM a\nLABEL x y\n", "2:LegacyKeyValueFormat"},
        {"FROM a\nENV API_TOKEN=x\n", "2:SecretsUsedInArgOrEnv"},
        {"FROM a\nARG password\n", "2:SecretsUsedInArgOrEnv"},
        {"ARG AWS_SECRET\nFROM a\n", "1:SecretsUsedInArgOrEnv"},
        {"FROM a\nENV PUBLIC_KEY=x TOKENS=1 KEYBOARD=1\n", ""},
        {"FROM a\nEXPOSE 80/TCP\n", "2:ExposeProtoCasing"},
        {"FROM a\nEXPOSE 8080:80\n", "2:ExposeInvalidFormat"},
        {"FROM a\nCMD x\nENV TOKEN y\nMAINTAINER z\n",
         "2:JSONArgsRecommended 3:LegacyKeyValueFormat 3:SecretsUsedInArgOrEnv "
         "4:MaintainerDeprecated"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_recipe *r = NULL;
        struct atoll_error err = {0};
        char found[1024] = "";
        assert_int_equal(atoll_dockerfile_parse(rows[i].text, strlen(rows[i].text), &r, &err), 0);
        atoll_dockerfile_lint(r, add, found);
        if (strcmp(found, rows[i].expected) != 0)
            fail_msg("%s  %s", rows[i].text, found);
        atoll_recipe_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
