# SPDX-License-Identifier: MIT OR Apache-2.0
import time


def digest(text):
    total = 0
    for letter in text:
        total = (total * 31 + ord(letter)) % 65521
    return total


def sorted_by(count):
    return sorted((i * 7919 % 10007 for i in range(count)), key=lambda number: -number)


def walk(node):
    return 0 if node is None else node["value"] + walk(node["left"]) + walk(node["right"])


def tree(depth):
    return None if depth == 0 else {"value": depth, "left": tree(depth - 1), "right": tree(depth - 1)}


def serve(number):
    return digest("request " + str(number) + " of many " * 200) + sorted_by(2000)[number % 2000] + walk(tree(12))


def program():
    end = time.process_time() + 3
    total = number = 0
    while time.process_time() < end:
        total += serve(number)
        number += 1
    return total


print("true" if program() != 0 else "false")
