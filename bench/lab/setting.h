/*
 * Settings of hakmem on a command line, NAME=VALUE, and in the environment.
 */
#ifndef HAK_SETTING_H
#define HAK_SETTING_H

/* 1 if an argument has the form of a setting: NAME=anything. */
int hak_setting_is(const char *argument);
/*
 * Checks a setting against the option table. 1, or 0 after saying what is
 * wrong with it.
 */
int hak_setting_check(const char *setting);
/*
 * Puts settings into the environment and checks every HAKMEM_ variable there.
 * Ends the process if one is bad, after telling of each.
 */
void hak_setting_apply(char *const *settings, int count);

#endif
