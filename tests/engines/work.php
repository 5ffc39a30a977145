<?php
// SPDX-License-Identifier: MIT OR Apache-2.0
function digest($text) {
    $sum = 0;
    for ($i = 0; $i < strlen($text); $i++) $sum = ($sum * 31 + ord($text[$i])) % 65521;
    return $sum;
}
function sorted($count) {
    $all = [];
    for ($i = 0; $i < $count; $i++) $all[] = $i * 7919 % 10007;
    usort($all, fn($a, $b) => $a - $b);
    return $all;
}
function walk($node) {
    return $node === null ? 0 : $node["value"] + walk($node["left"]) + walk($node["right"]);
}
function tree($depth) {
    return $depth === 0 ? null : ["value" => $depth, "left" => tree($depth - 1), "right" => tree($depth - 1)];
}
function serve($round) {
    return digest("request " . $round . str_repeat(" of many ", 200)) + sorted(2000)[$round % 2000] + walk(tree(12));
}
function used() {
    $now = getrusage();
    return $now["ru_utime.tv_sec"] + $now["ru_stime.tv_sec"] + ($now["ru_utime.tv_usec"] + $now["ru_stime.tv_usec"]) / 1e6;
}
function program() {
    $end = used() + 3;
    $sum = 0;
    for ($round = 0; used() < $end; $round++) $sum += serve($round);
    return $sum;
}
echo program() > 0 ? "true\n" : "false\n";
