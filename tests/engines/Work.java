// SPDX-License-Identifier: MIT OR Apache-2.0
import java.util.*;

public class Work {
  record Node(int value, Node left, Node right) {}

  static int digest(String text) {
    int sum = 0;
    for (int i = 0; i < text.length(); i++) sum = (sum * 31 + text.charAt(i)) % 65521;
    return sum;
  }

  static List<Integer> sorted(int count) {
    List<Integer> all = new ArrayList<>();
    for (int i = 0; i < count; i++) all.add(i * 7919 % 10007);
    Collections.sort(all);
    return all;
  }

  static int walk(Node node) {
    return node == null ? 0 : node.value + walk(node.left) + walk(node.right);
  }

  static Node tree(int depth) {
    return depth == 0 ? null : new Node(depth, tree(depth - 1), tree(depth - 1));
  }

  static long serve(int round) {
    return digest("request " + round + " of many ".repeat(200)) + sorted(2000).get(round % 2000) + walk(tree(12));
  }

  static long used() {
    return ProcessHandle.current().info().totalCpuDuration().get().toMillis();
  }

  static long program() {
    long end = used() + 3000, sum = 0;
    for (int round = 0; round % 64 != 0 || used() < end; round++) sum += serve(round);
    return sum;
  }

  public static void main(String[] arguments) {
    System.out.println(program() > 0);
  }
}
